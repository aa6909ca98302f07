"""Sweeps: many settings of a few recipes measured in one pass, without a row per rollout and setting.

A setting whose rules act on whole rollouts needs the ledger alone (``iscope.analysis.compare.rollouts``). One whose
bounds act on a single statistic of each token is summed by interval while its batch is in memory (``intervals``). What
is neither is replayed like any other recipe.
"""
