"""What verl's metrics share: its masked means (verl 0.9.1, utils/torch_functional.py)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from iscope.analysis.numbers import Array
from iscope.analysis.recipe_rows import RecipeRows

LIMIT = 20.0
LARGEST_FINITE = float(np.finfo(np.float32).max)
# Added to the tokens of every mean.
EPSILON = 1e-8

Metrics: TypeAlias = Iterator[tuple[str, float]]


def masked_mean(rows: RecipeRows, total: Array) -> float:
    """Mean over the loss tokens of the batch of what the rollouts hold sums [N] of."""
    return float(total.sum()) / (rows.rows.tokens + EPSILON)


def rollout_mean(rows: RecipeRows, total: Array) -> Array:
    """Mean over the loss tokens of each rollout [N]; 0 for an empty one."""
    return total / (rows.rows.n + EPSILON)


def spread(rows: RecipeRows, total: Array, squares: Array) -> float:
    """Population standard deviation over loss tokens, 0 for a single one."""
    if rows.rows.tokens <= 1:
        return 0.0
    return math.sqrt(max(masked_mean(rows, squares) - masked_mean(rows, total) ** 2, 0.0))
