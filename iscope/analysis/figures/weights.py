"""A recipe's weights: the raw ratio at its level, and the weight that is applied after truncation and rejection."""

from __future__ import annotations

import math
from dataclasses import replace

from iscope.analysis.figures.ratios import raw_ratio
from iscope.analysis.intervals import closed
from iscope.analysis.latest import latest
from iscope.analysis.numbers import Scaled, log_of
from iscope.analysis.ratio_summary import QUANTILES, Moments, rollout_summary, token_summary
from iscope.analysis.recipe_rows import RecipeRows
from iscope.analysis.rows import Rows
from iscope.model import Figure, Figures, Node
from iscope.recipes.model import Level, Pair

_BELOW_ZERO = "every weight is below 0, and quantiles are kept of weights above"


def figures(rows: RecipeRows) -> Figures:
    """``raw`` before, ``applied`` after; in tokens for token weights, else in rollouts."""
    pair = rows.recipe.weight.pair
    level = rows.level
    raw = raw_ratio(rows.rows, Level.TOKEN if level is Level.NONE else level, pair)
    own = {name: raw.pop(name) for name in ("unit", "ess", "ess_fraction")}
    name = level, rows.rows.resolve(pair)
    of_rollouts = rows.rows.once(("raw rollout size", *name), lambda: _raw_rollout_size(rows.rows, level, pair))
    of_tokens = rows.rows.once(("raw token size", *name), lambda: _raw_token_size(rows.rows, level, pair))
    raw["ess_token"], raw["ess_rollout"] = own["ess"] if own["unit"] == "tokens" else of_tokens, of_rollouts
    return {"raw": raw, "applied": _applied(rows)}


def _raw_token_size(rows: Rows, level: Level, pair: Pair) -> Figure:
    return Figure(Scaled(rows.log_ratio(level, pair)).effective_size(rows.n))


def _raw_rollout_size(rows: Rows, level: Level, pair: Pair) -> Figure:
    if level in (Level.SEQUENCE, Level.GEOMETRIC):
        return Figure(Scaled(rows.log_ratio(level, pair)).effective_size())
    return Figure(Scaled(log_of(rows.pair("weight_sum", pair) / rows.n)).effective_size())


def _applied(rows: RecipeRows) -> Figures:
    sizes = _of_tokens(rows) if rows.per_token else rollout_summary(weights_of(rows))
    return _below_zero(closed(sizes)) if rows.recipe.weight.sign < 0 and rows.rows.rollouts else sizes


def weights_of(rows: RecipeRows) -> Scaled:
    """The mean applied weight of each rollout; made once for all figures."""
    return latest(rows.rows, "weights", rows.index, lambda: Scaled(rows.log_mean_weight))


def moments_of(rows: RecipeRows) -> Moments:
    """Sums of the applied token weights, of a recipe that works per token; read once for all figures."""
    return latest(rows.rows, "moments", rows.index, lambda: rows.moments)


def _of_tokens(rows: RecipeRows) -> Figures:
    return token_summary(
        moments=moments_of(rows),
        log_range=(rows["log_weight_min"], rows["log_weight_max"]),
        outside=None if rows.recipe.weight.normalises else rows["outside"],
        shift=-math.log(rows.mean_weight),
        counts=rows.histogram,
    )


def _below_zero(sizes: Figures) -> Figures:
    """Summarise weights that a bound below 0 made, given a summary of their sizes; none exceeds 1/2."""
    quantiles = dict.fromkeys(QUANTILES, Figure.absent(_BELOW_ZERO))
    turned = {name: _turned(sizes[of]) for name, of in (("min", "max"), ("mean", "mean"), ("max", "min"))}
    return {**sizes, **quantiles, **turned, "outside_half_two": Figure(1.0)}


def _turned(size: Node) -> Figure:
    assert isinstance(size, Figure)
    if not size.value:
        return size
    low, high = (None if end is None else -abs(end) for end in (size.high, size.low))
    if low is not None and high is not None:
        low, high = min(low, high), max(low, high)
    return replace(size, value=-abs(size.value), low=low, high=high, log10=None)
