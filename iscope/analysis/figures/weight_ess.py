"""Effective sample size of the applied weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from iscope.analysis.figures.changes import changed
from iscope.analysis.figures.weights import moments_of, weights_of
from iscope.analysis.intervals import size_of
from iscope.analysis.numbers import read_only, share
from iscope.analysis.recipe_rows import RecipeRows
from iscope.model import Figure, Figures
from iscope.replay.compiled import compiled


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
    clusters = rows.rows.clusters
    sums = np.zeros((clusters.count, 2))
    columns = read_only(weights_of(rows).values, np.float64), read_only(rows.rows.n, np.int32)
    sum_repeated(sums, clusters.block, *columns)
    weight, square = np.ascontiguousarray(sums.T)
    return size_of(weight, square, changed(rows).sums.scored)


@compiled()
def sum_repeated(sums: Any, block: Any, weights: Any, repeats: Any) -> None:
    """Add weights and their squares up by block, each as often as it counts.

    Args:
        sums: what to add to, float64 [B, 2].
        block: the block of each row, int64 [N], no number of which is below 0.
        weights: float64 [N], read only.
        repeats: how often each counts, int32 [N], read only.
    """
    for row in range(len(block)):
        at, weight = np.uint64(block[row]), weights[row]
        sums[at, 0] += weight * repeats[row]
        sums[at, 1] += weight * weight * repeats[row]
