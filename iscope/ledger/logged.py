"""Columns of what a framework logs of its weights and of the statistics that its filters test."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from iscope.recipes.model import BoundRecipe, Filter, Level, Reduction, bound_value
from iscope.replay.aggregation import dropped_rollouts, dropped_tokens
from iscope.replay.correction import Correction, correct, undropped_weight
from iscope.replay.filters import reject, statistic
from iscope.replay.view import TokenView
from iscope.replay.weights import clamp_log

Columns = dict[str, Tensor]


def measure_logged(view: TokenView, recipe: BoundRecipe) -> Columns:
    """Measure a recipe's weights before a filter drops tokens, and its statistics, over each rollout [N].

    Returns:
        Under ``logged.NAME``: ``weight_sum``, ``weight_sq``, ``weight_min`` and ``weight_max`` of the weights, for a
        weight per token ``above`` and ``below``, tokens with a ratio outside the bounds; with ``cut_logged`` too
        ``cut_sum`` and ``cut_sq`` of the weights cut to the bounds; ``dropped``, tokens that a filter drops, and
        ``gone``, rollouts that one drops as a whole. Under ``statistic{i}``, of filter i: the statistic of the rollout,
        or, of a statistic per token, ``_sum``, ``_min``, ``_max``, ``_cut`` and ``_cut_sq`` of the statistic cut to the
        filter's bounds, and ``_outside``, tokens outside them. Of a recipe that drops nothing, does not normalise its
        weights, and whose framework logs none of them, nothing.
    """
    rule = recipe.weight
    filters = [index for index, rule in enumerate(recipe.filters) if rule.logged]
    weighs = (rule.logged or rule.normalises) and rule.applied and rule.level is not Level.NONE
    if not weighs and not filters and not any(rule.drops for rule in recipe.filters):
        return {}
    correction = correct(view, recipe)
    columns = _weights(view, recipe, correction) if weighs else {}
    for index in filters:
        columns |= {f"statistic{index}{name}": sums for name, sums in _statistic(view, recipe.filters[index]).items()}
    dropped, gone = dropped_tokens(view, recipe, correction), dropped_rollouts(recipe, correction)
    if dropped is not None:
        columns["logged.dropped"] = view.segments.count(dropped)
    if gone is not None:
        columns["logged.gone"] = gone
    return columns


def weight_bounds(recipe: BoundRecipe) -> tuple[float, float] | None:
    """Bounds of a recipe's ratio: what cuts the weight or zeroes it; with one alone, its reciprocal below.

    Source: verl 0.9.1, compute_is_metrics.
    """
    zeroing = [rule for rule in recipe.filters if not rule.drops]
    rule = zeroing[0] if zeroing else recipe.weight
    low, high = bound_value(rule.low), bound_value(rule.high)
    return None if high is None else (1 / high if low is None else low, high)


def statistic_bounds(rule: Filter) -> tuple[float | None, float | None]:
    """A filter's bounds in the space of its statistic."""
    bounds = bound_value(rule.low), bound_value(rule.high)
    if rule.space != "log":
        return bounds
    low, high = (None if bound is None else math.log(bound) for bound in bounds)
    return low, high


def _weights(view: TokenView, recipe: BoundRecipe, correction: Correction) -> Columns:
    segments, rule = view.segments, recipe.weight
    weight = undropped_weight(view, recipe, correction)
    columns = {
        "logged.weight_sum": segments.sum(weight),
        "logged.weight_sq": segments.sum(weight * weight),
        "logged.weight_min": segments.min(weight),
        "logged.weight_max": segments.max(weight),
    }
    bounds = weight_bounds(recipe)
    if rule.cut_logged and bounds is not None:
        cut = weight.clamp(*bounds)
        columns |= {"logged.cut_sum": segments.sum(cut), "logged.cut_sq": segments.sum(cut * cut)}
    if rule.level is Level.TOKEN and bounds is not None:
        ratio = clamp_log(view.log_ratio(rule.pair), rule.clamp).exp()
        columns["logged.below"] = segments.count(ratio < bounds[0])
        columns["logged.above"] = segments.count(ratio > bounds[1])
    return columns


def _statistic(view: TokenView, rule: Filter) -> Columns:
    value, segments = statistic(view, rule).double(), view.segments
    if rule.reduction is not Reduction.TOKEN:
        return {"": torch.where(segments.lengths > 0, value, 0.0)}
    low, high = statistic_bounds(rule)
    cut = value.clamp(low, high)
    return {
        "_sum": segments.sum(value),
        "_min": segments.min(value),
        "_max": segments.max(value),
        "_cut": segments.sum(cut),
        "_cut_sq": segments.sum(cut * cut),
        "_outside": segments.count(reject(view, replace(rule, acts_on="token")).out),
    }
