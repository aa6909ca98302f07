"""Bounds of a recipe on the log-ratio of a rollout, S = sum d or G = S / n, whatever space its rules compare in."""

from __future__ import annotations

import math
from dataclasses import dataclass

from iscope.recipes.model import (
    BoundRecipe,
    Filter,
    Level,
    LogClamp,
    Pair,
    Quantity,
    Reduction,
    Signs,
    WeightRule,
    bound_value,
)

TRUNCATION = "truncation"

_LEVELS = {Reduction.TOKEN: Level.TOKEN, Reduction.SUM: Level.SEQUENCE, Reduction.MEAN: Level.GEOMETRIC}


@dataclass(frozen=True)
class Band:
    """What a rule lets pass unchanged: log-ratios at a level that are not below ``low`` nor above ``high``.

    Attributes:
        rule: the name of the filter, or ``truncation`` for the bounds of the weight.
        index: the filter's place in the recipe; None for the weight.
        level: what is bounded: d of each token, S (``sequence``) or G (``geometric``).
        pair: whose log-ratio.
        low: lower bound, nats; -inf where there is none.
        high: upper bound, nats; inf where there is none.
        signs: the advantages for which it is in force.
    """

    rule: str
    index: int | None
    level: Level
    pair: Pair
    low: float
    high: float
    signs: Signs = Signs.ANY


def bands(recipe: BoundRecipe) -> list[Band]:
    """Return the bands of a recipe's weight rule and filters, in the order they act in; at least one end is set.

    Left out are rules on other quantities than the log-ratio, on extremes, by a function, those that take their
    decision from another ratio than the one they cut, and those whose bounds hold for different advantages.
    """
    found = [_of_weight(recipe.weight), *(_of_filter(rule, index) for index, rule in enumerate(recipe.filters))]
    return [band for band in found if band is not None and (band.low > -math.inf or band.high < math.inf)]


def negative_weights(recipe: BoundRecipe) -> str:
    """Say what an upper bound below 0 makes of the weights of a recipe that has one, in a sentence."""
    high = bound_value(recipe.weight.high)
    return (
        f"{recipe.spec}: the upper bound of the weight is below 0, so every weight is {high:g} and the gradient points "
        "the wrong way."
    )


def _of_weight(rule: WeightRule) -> Band | None:
    if rule.level is Level.NONE or not rule.applied or rule.decided_by is not None or rule.function is not None:
        return None
    assert isinstance(rule.level, Level)
    low, high = log_bounds(bound_value(rule.low), bound_value(rule.high))
    low, high = _within(rule.clamp, rule.level, low, high)
    return Band(TRUNCATION, None, rule.level, rule.pair, low, high)


def _of_filter(rule: Filter, index: int) -> Band | None:
    known = rule.quantity in (Quantity.LOG_RATIO, Quantity.K1) and rule.reduction in _LEVELS
    extreme = rule.reduction is Reduction.TOKEN and rule.acts_on == "rollout"
    signs = _signs(rule)
    if not known or extreme or rule.pushed_only or rule.function is not None or signs is None:
        return None
    bounds = bound_value(rule.low), bound_value(rule.high)
    low, high = open_bounds(*bounds) if rule.space == "plain" else log_bounds(*bounds)
    level = _LEVELS[rule.reduction]
    low, high = _within(rule.clamp, level, low, high)
    if rule.quantity is Quantity.K1:
        low, high = -high, -low
    return Band(rule.name, index, level, rule.pair, low, high, signs)


def _signs(rule: Filter) -> Signs | None:
    """The advantages for which a filter's bounds are in force; None where they differ."""
    ends = ((rule.low, rule.low_signs), (rule.high, rule.high_signs))
    found = {signs for bound, signs in ends if bound is not None}
    return found.pop() if len(found) == 1 else None


def _within(clamp: LogClamp | None, level: Level, low: float, high: float) -> tuple[float, float]:
    """The bounds as they act on what is not clamped: one at or beyond a limit of it never acts."""
    if clamp is None or (clamp.of == "token" and level is not Level.TOKEN):
        return low, high
    least, most = bound_value(clamp.low), bound_value(clamp.high)
    return (
        -math.inf if least is not None and low <= least else low,
        math.inf if most is not None and high >= most else high,
    )


def open_bounds(low: float | None, high: float | None) -> tuple[float, float]:
    """Bounds as they are, infinite where there is none."""
    return -math.inf if low is None else low, math.inf if high is None else high


def log_bounds(low: float | None, high: float | None) -> tuple[float, float]:
    """Logs of bounds on a ratio, nats; infinite where there is none, -inf of one that is not above 0."""
    return (
        math.log(low) if low is not None and low > 0 else -math.inf,
        math.inf if high is None else math.log(high) if high > 0 else -math.inf,
    )
