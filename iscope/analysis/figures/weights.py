"""A recipe's weights: the raw ratio at its level, and the weight that is applied after truncation and rejection."""

from __future__ import annotations

import math

from iscope.analysis.figures.ratios import pair_moments, raw_ratio
from iscope.analysis.numbers import effective_size, log_of
from iscope.analysis.ratio_summary import rollout_summary, token_summary
from iscope.analysis.rows import RecipeRows
from iscope.model import Figure, Figures
from iscope.recipes.model import Level, Pair


def figures(rows: RecipeRows) -> Figures:
    """``raw`` before, ``applied`` after; in tokens for token weights, else in rollouts."""
    pair = rows.recipe.weight.pair
    level = rows.level
    raw = raw_ratio(rows.rows, Level.TOKEN if level is Level.NONE else level, pair)
    for name in ("unit", "ess", "ess_fraction"):
        del raw[name]
    raw["ess_token"] = _raw_token_size(rows, level, pair)
    raw["ess_rollout"] = _raw_rollout_size(rows, level, pair)
    return {"raw": raw, "applied": _applied(rows)}


def _raw_token_size(rows: RecipeRows, level: Level, pair: Pair) -> Figure:
    if level in (Level.TOKEN, Level.NONE):
        return Figure(pair_moments(rows.rows, pair).effective_size())
    return Figure(effective_size(rows.rows.log_ratio(level, pair), rows.rows.n))


def _raw_rollout_size(rows: RecipeRows, level: Level, pair: Pair) -> Figure:
    if level in (Level.SEQUENCE, Level.GEOMETRIC):
        return Figure(effective_size(rows.rows.log_ratio(level, pair)))
    return Figure(effective_size(log_of(rows.rows.pair("weight_sum", pair) / rows.rows.n)))


def _applied(rows: RecipeRows) -> Figures:
    if not rows.per_token:
        return rollout_summary(rows.log_mean_weight)
    return token_summary(
        moments=rows.moments,
        log_range=(rows["log_weight_min"], rows["log_weight_max"]),
        outside=None if rows.recipe.weight.normalises else int(rows["outside"].sum()),
        shift=-math.log(rows.mean_weight),
        counts=rows.rows.histograms.get(f"recipe{rows.index}"),
    )
