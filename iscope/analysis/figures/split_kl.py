"""Mismatch KL of what a recipe keeps and of what it rejects."""

from __future__ import annotations

import numpy as np

from iscope.analysis.intervals import ratio
from iscope.analysis.numbers import NO_TOKENS, Array, figure, share
from iscope.analysis.rows import RecipeRows
from iscope.model import Figure, Figures


def figures(rows: RecipeRows) -> Figures:
    """K3 of the recipe's policy pair, nats per token, over rejected and over kept tokens.

    ``token`` pools the tokens; ``rollout_mean`` is prime-rl's masked_mismatch_kl and unmasked_mismatch_kl: the mean
    over rollouts of each rollout's mean, 0 for a rollout without such tokens.
    """
    masked = share(float(rows.k3_masked.sum()), int(rows.masked.sum()), "nothing was masked")
    unmasked = ratio(rows.rows.clusters, rows.k3_kept, rows.kept, "everything was masked")
    return {
        "masked_mismatch_kl": _kl(rows, masked, rows.k3_masked, rows.masked),
        "unmasked_mismatch_kl": _kl(rows, unmasked, rows.k3_kept, rows.kept),
    }


def _kl(rows: RecipeRows, token: Figure, k3: Array, tokens: Array) -> Figures:
    if not rows.rows.rollouts:
        return {"token": Figure.absent(NO_TOKENS), "rollout_mean": Figure.absent(NO_TOKENS)}
    return {"token": token, "rollout_mean": figure(float(np.mean(k3 / np.maximum(tokens, 1))))}
