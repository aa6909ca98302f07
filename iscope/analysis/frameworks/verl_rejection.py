"""verl's metrics of its rejection (verl 0.9.1, compute_rs_metrics): rollout_rs_* of each option, and of all."""

from __future__ import annotations

import numpy as np

from iscope.analysis.frameworks.verl_shared import Metrics, masked_mean, rollout_mean, spread
from iscope.analysis.numbers import Array
from iscope.analysis.recipe_rows import RecipeRows
from iscope.ledger.logged import statistic_bounds
from iscope.recipes.model import Filter, Reduction


def rejection_metrics(rows: RecipeRows) -> Metrics:
    """Metrics of each option that is in force, and of all together; none without rejection."""
    rules = [(index, rule) for index, rule in enumerate(rows.recipe.filters) if rule.drops]
    for index, rule in rules:
        for name, value in _option(rows, index, rule):
            yield f"rollout_rs_{rule.name}_{name}", value
    if rules:
        dropped = rows["logged.dropped"]
        yield "rollout_rs_masked_fraction", masked_mean(rows, dropped)
        yield "rollout_rs_seq_masked_fraction", float((dropped > 0).mean())


def _option(rows: RecipeRows, index: int, rule: Filter) -> Metrics:
    filled = rows.rows.n > 0
    rejected = np.add(*rows.rejected(index))
    yield "masked_fraction", masked_mean(rows, rejected)
    yield "seq_masked_fraction", float((rejected[filled] > 0).mean())
    if rule.reduction is Reduction.TOKEN:
        own = rollout_mean(rows, rows[f"statistic{index}_sum"])
        yield from _of_tokens(rows, index, rule)
    else:
        own = _statistic(rows, index, rule)
        yield from _of_rollouts(rows, rule, own)
    yield from _over_rollouts(rule, own[filled])


def _statistic(rows: RecipeRows, index: int, rule: Filter) -> Array:
    value = rows[f"statistic{index}"]
    return rollout_mean(rows, value * rows.rows.n) if rule.reduction is Reduction.MEAN else value


def _of_tokens(rows: RecipeRows, index: int, rule: Filter) -> Metrics:
    filled, (below, above) = rows.rows.n > 0, rows.rejected(index)
    yield "mean", masked_mean(rows, rows[f"statistic{index}_sum"])
    yield "max", float(rows[f"statistic{index}_max"][filled].max())
    yield "min", float(rows[f"statistic{index}_min"][filled].min())
    yield "fraction_high", masked_mean(rows, above)
    yield "fraction_low", masked_mean(rows, below) if rule.low is not None else 0.0
    yield "std", spread(rows, rows[f"statistic{index}_cut"], rows[f"statistic{index}_cut_sq"])


def _of_rollouts(rows: RecipeRows, rule: Filter, own: Array) -> Metrics:
    """A rollout's statistic counts once for each of its tokens in mean and std, once in all in the others."""
    n, (low, high) = rows.rows.n, statistic_bounds(rule)
    of_filled = own[n > 0]
    cut = np.clip(own, low, high)
    yield "mean", masked_mean(rows, own * n)
    yield "max", float(of_filled.max())
    yield "min", float(of_filled.min())
    yield "fraction_high", _share_above(of_filled, high)
    yield "fraction_low", _share_below(of_filled, low)
    yield "std", spread(rows, cut * n, cut * cut * n)


def _over_rollouts(rule: Filter, own: Array) -> Metrics:
    low, high = statistic_bounds(rule)
    yield "seq_mean", float(own.mean())
    yield "seq_std", float(own.std(ddof=1)) if own.size > 1 else 0.0
    yield "seq_max", float(own.max())
    yield "seq_min", float(own.min())
    yield "seq_max_deviation", float(np.abs(own).max())
    yield "seq_fraction_high", _share_above(own, high)
    if low is not None:
        yield "seq_fraction_low", _share_below(own, low)


def _share_above(values: Array, bound: float | None) -> float:
    return 0.0 if bound is None else float((values > bound).mean())


def _share_below(values: Array, bound: float | None) -> float:
    return 0.0 if bound is None else float((values < bound).mean())
