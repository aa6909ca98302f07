"""Variance ratio: whether the numerator is new to these rollouts, and they were sampled from the logged policy."""

from __future__ import annotations

import numpy as np

from iscope.analysis.intervals import ratio
from iscope.analysis.numbers import NO_TOKENS, Array
from iscope.analysis.rows import Rows
from iscope.model import Figure, Figures
from iscope.recipes.model import Pair

# Nats per token below which log-ratios are rounding, which is no martingale.
ROUNDING_K3 = 1e-6
ROUNDING = f"k3 is below {ROUNDING_K3:g} nats per token: the log-ratios are rounding"


def figures(rows: Rows) -> Figures:
    """``variance_ratio``: sum_i (sum_t (rho_t - 1))^2 / sum_i sum_t (rho_t - 1)^2, trainer over inference.

    rho_t - 1 is a martingale difference under the sampler mu, so that the ratio is 1 on fresh rollouts, whatever the
    engine, its precision or the lag. It is far above 1 where the numerator was trained on these very rollouts, or where
    they were not sampled from the logged policy.
    """
    return {"variance_ratio": variance_ratio(rows)}


def variance_ratio(rows: Rows, pair: Pair = Pair.TRAINER_INFERENCE) -> Figure:
    """The variance ratio of a pair over inference; absent where its log-ratios are rounding."""
    if rows.tokens and rows.pair_total("k3_sum", pair) < ROUNDING_K3 * rows.tokens:
        return Figure.absent(ROUNDING)
    return ratio(rows.clusters, *variance_columns(rows, pair), NO_TOKENS)


def variance_columns(rows: Rows, pair: Pair = Pair.TRAINER_INFERENCE) -> tuple[Array, Array]:
    """(sum_t (rho_t - 1))^2 and sum_t (rho_t - 1)^2 of each rollout [N], over one scale that keeps them finite."""
    sums, squares = rows.pair("excess_sum", pair), rows.pair("excess_sq", pair)
    scale = max(float(np.abs(sums).max(initial=0.0)), float(np.sqrt(squares).max(initial=0.0))) or 1.0
    return (sums / scale) ** 2, squares / scale / scale
