"""SkyRL's metrics of its off-policy correction and its losses (commit a9564572): policy/loss_metrics/*.

The batch is taken as one micro-batch on one rank: SkyRL averages the means of its micro-batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from iscope.analysis.frameworks.nan import unless_nan
from iscope.analysis.numbers import Array, figure, from_log, share
from iscope.analysis.recipe_rows import RecipeRows
from iscope.model import Figure, Figures
from iscope.recipes.model import Filter, Level, Pair, Reduction, WeightRule, bound_value

_LIMIT = 20.0
_NO_TOKENS = "no loss tokens"
_NO_ROLLOUTS = "no rollouts"
_PAIR = Pair.TRAINER_INFERENCE
# The gate of a loss counts as its clipping; sapo and importance_sampling have no bound to count.
_CLIPPING = {"clipped_surrogate": ("clipped_low", "clipped_high"), "cispo": ("outside",)}


def metrics(rows: RecipeRows) -> Figures:
    """Every metric SkyRL logs for this correction and loss; those of the loss take current logprobs."""
    found: Figures = dict(_loss(rows))
    if rows.recipe.filters or rows.recipe.weight.level != Level.NONE:
        found |= dict(_ratios(rows)) | dict(_correction(rows))
    return unless_nan(rows, found, "SkyRL")


def _ratios(rows: RecipeRows) -> Iterator[tuple[str, Figure]]:
    """Moments of the token ratio on the mask as it came; std, max and min are over padded positions too, as 0."""
    batch = rows.rows
    n, sums = batch.tokens, [batch.pair_total(name, _PAIR) for name in ("limited_ratio_sum", "limited_ratio_sq_sum")]
    width = int(batch["tokens"].max()) if batch.rollouts else 0
    size = batch.rollouts * width
    yield "is_ratio_mean", figure(sums[0] / max(n, 1))
    variance = (sums[1] - sums[0] ** 2 / size) / (size - 1) if size > 1 else math.nan
    yield "is_ratio_std", figure(math.sqrt(max(variance, 0.0)), "fewer than two positions")
    filled = batch.n > 0
    if not size:
        yield from ((f"is_ratio_{name}", Figure.absent(_NO_TOKENS)) for name in ("max", "min"))
        return
    yield "is_ratio_max", _extreme(batch.pair("log_ratio_max", _PAIR)[filled], np.max)
    smallest = _extreme(batch.pair("log_ratio_min", _PAIR)[filled], np.min)
    yield "is_ratio_min", smallest if n == size else Figure(0.0)


def _extreme(logs: Array, reduce: Callable[[Array], Any]) -> Figure:
    return from_log(min(max(float(reduce(logs)), -_LIMIT), _LIMIT)) if logs.size else Figure(0.0)


def _correction(rows: RecipeRows) -> Iterator[tuple[str, Figure]]:
    for index, rule in enumerate(rows.recipe.filters):
        if rule.name == "token_mask":
            yield "token_mask_ratio", share(_total(rows.rejected(index)), max(_tokens_left(rows, "token_mask"), 1))
        else:
            yield from _rollouts_rejected(rows, index, rule)
    weight = rows.recipe.weight
    if weight.level == Level.TOKEN:
        left = _tokens_left(rows, None)
        yield "tis_token_clip_high_ratio", share(float(rows.truncated_high.sum()), max(left, 1))
    elif weight.level == Level.SEQUENCE:
        yield "tis_seq_clip_high_ratio", _of_rollouts(rows, rows.truncated_high > 0, _cuts_one(weight))


def _rollouts_rejected(rows: RecipeRows, index: int, rule: Filter) -> Iterator[tuple[str, Figure]]:
    """Rollouts outside the bounds, of all; an empty one has ratio 1, but no token that could be an outlier."""
    names = {"outlier": "outlier_seq", "geometric": "geo_sequence_mask", "product": "product_sequence_mask"}
    low, high = (found > 0 for found in rows.rejected(index))
    below = above = False
    if rule.reduction is not Reduction.TOKEN:
        bounds = bound_value(rule.low), bound_value(rule.high)
        below, above = bounds[0] is not None and bounds[0] > 1, bounds[1] is not None and bounds[1] < 1
    yield f"{names[rule.name]}_masked_ratio", _of_rollouts(rows, low | high, below or above)
    yield f"{names[rule.name]}_over_high_ratio", _of_rollouts(rows, high, above)
    yield f"{names[rule.name]}_under_low_ratio", _of_rollouts(rows, low, below)


def _of_rollouts(rows: RecipeRows, flags: Array, empty: bool) -> Figure:
    """Share of all rollouts; ``empty`` says whether those without loss tokens are flagged."""
    flagged = int(flags.sum()) + (int((rows.rows.n == 0).sum()) if empty else 0)
    return share(flagged, rows.rows.rollouts, _NO_ROLLOUTS)


def _cuts_one(weight: WeightRule) -> bool:
    high = bound_value(weight.high)
    return high is not None and high < 1


def _tokens_left(rows: RecipeRows, before: str | None) -> int:
    """Loss tokens left by the filters that test single tokens, by those before a name if one is given."""
    left = rows.rows.n.astype(np.int64)
    for index, rule in enumerate(rows.recipe.filters):
        if rule.name == before or rule.reduction is not Reduction.TOKEN:
            break
        low, high = rows.rejected(index)
        left = left - (low + high) if rule.name == "token_mask" else np.where(low + high > 0, 0, left)
    return int(left.sum())


def _total(counts: tuple[Array, Array]) -> float:
    return float(counts[0].sum() + counts[1].sum())


def _loss(rows: RecipeRows) -> Iterator[tuple[str, Figure]]:
    loss, tokens = rows.recipe.loss, max(rows.rows.tokens, 1)
    if not rows.replayed or "current/trainer:log_ratio_sum" not in rows.rows or "advantage" not in rows.rows:
        return
    if rows.recipe.options["loss_type"] == "importance_sampling":
        yield "importance_ratio", share(rows.rows.pair_total("weight_sum", loss.pair), rows.rows.tokens, _NO_TOKENS)
        return
    names = ("gated",) if loss.gate is not None else _CLIPPING.get(loss.type, ())
    yield "clip_ratio", share(sum(float(_column(rows, name).sum()) for name in names), tokens)
    if rows.recipe.options["loss_type"] == "cispo":
        yield "cispo/ratio_mean", share(float(_column(rows, "ratio").sum()), tokens)
        yield "cispo/ratio_clamped_mean", share(float(_column(rows, "clipped_ratio").sum()), tokens)
        filled = rows.rows.n > 0
        yield "cispo/ratio_max", _extreme(rows.rows.pair("log_ratio_max", loss.pair)[filled], np.max)
        yield "cispo/ratio_min", _extreme(rows.rows.pair("log_ratio_min", loss.pair)[filled], np.min)


def _column(rows: RecipeRows, name: str) -> Array:
    return rows[f"loss.{name}"]
