"""Effective sample size of the applied weights."""

from __future__ import annotations

from iscope.analysis.figures.weights import moments_of, weights_of
from iscope.analysis.intervals import size
from iscope.analysis.numbers import share
from iscope.analysis.rows import RecipeRows
from iscope.model import Figure, Figures


def figures(rows: RecipeRows) -> Figures:
    """(sum w)^2 / sum w^2: over tokens, and over rollouts with W = mean applied weight of the rollout.

    Uncorrected it is n tokens and N rollouts; all rejected it is 0.
    """
    token, token_fraction = moments_of(rows).effective_size() if rows.per_token else _of_tokens(rows)
    rollout = weights_of(rows).effective_size()
    return {
        "ess": {
            "token": token,
            "token_fraction": token_fraction,
            "rollout": Figure(rollout),
            "rollout_fraction": share(rollout, rows.rows.rollouts, "no rollouts with scored tokens"),
        }
    }


def _of_tokens(rows: RecipeRows) -> tuple[Figure, Figure]:
    """Over tokens that share their rollout's weight."""
    weights, n = weights_of(rows), rows.rows.n
    return size(rows.rows.clusters, weights.values * n, weights.squares * n, n)
