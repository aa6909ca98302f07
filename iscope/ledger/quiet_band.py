"""The quiet band of a recipe: the log-ratios at which it neither cuts nor rejects a token.

A bound on the ratio acts beyond its own log. A bound on a probability difference p - q acts beyond
-log(1 - delta e^-0.2): p - q = p (1 - e^-d) and p is at most e^0.2, the largest logprob that is scored.
"""

from __future__ import annotations

import math

from iscope.recipes.bounds import log_bounds, open_bounds
from iscope.recipes.model import BoundRecipe, Filter, Level, Loss, Pair, Quantity, Reduction, bound_value
from iscope.replay.usable import MAX_POSITIVE


def quiet_band(recipe: BoundRecipe) -> tuple[float, float] | None:
    """Log-ratios at which the recipe neither cuts nor rejects a token; None where there is no such band."""
    loss = recipe.loss
    rules = [rule for rule in recipe.filters if rule.reduction is not Reduction.TOKEN]
    weight = () if recipe.weight.level is Level.TOKEN else (recipe.weight,)
    pairs = (Pair.TRAINER_INFERENCE, Pair.CURRENT_INFERENCE)  # those whose weighted sums are at hand
    if (
        recipe.functions
        or recipe.weight.prefix
        or (recipe.weight.level is Level.TOKEN and recipe.weight.pair not in pairs)
    ):
        return None
    survivors = any(rule.sees == "survivors" for rule in (*weight, *rules))
    pushed = any(rule.pushed_only for rule in recipe.filters)
    if not loss.linear_in_weight or loss.couples_tokens or survivors or pushed:
        return None
    bands = [_weight_band(recipe), _loss_band(recipe.loss)]
    for rule in recipe.filters:
        if rule.mean_high is not None:
            return None
        if rule.reduction is Reduction.TOKEN:
            band = _filter_band(rule)
            if band is None:
                return None
            bands.append(band)
    return max(band[0] for band in bands), min(band[1] for band in bands)


def _weight_band(recipe: BoundRecipe) -> tuple[float, float]:
    rule = recipe.weight
    if rule.level is not Level.TOKEN or not rule.applied:
        return -math.inf, math.inf
    low, high = log_bounds(bound_value(rule.low), bound_value(rule.high))
    if rule.clamp is None:
        return low, high
    clamp_low, clamp_high = bound_value(rule.clamp.low), bound_value(rule.clamp.high)
    return (
        low if clamp_low is None else max(low, clamp_low),
        high if clamp_high is None else min(high, clamp_high),
    )


def _loss_band(loss: Loss) -> tuple[float, float]:
    if loss.type != "clipped_weight":
        return -math.inf, math.inf
    return log_bounds(bound_value(loss.low), bound_value(loss.high))


def _filter_band(rule: Filter) -> tuple[float, float] | None:
    low, high = bound_value(rule.low), bound_value(rule.high)
    if rule.quantity is Quantity.LOG_RATIO:
        return open_bounds(low, high) if rule.space == "plain" else log_bounds(low, high)
    if rule.quantity is Quantity.K1:
        below, above = log_bounds(low, high) if rule.space == "log" else open_bounds(low, high)
        return -above, -below
    if rule.quantity is Quantity.K2 and low is None and rule.space == "plain":
        reach = math.sqrt(2 * high) if high is not None and high > 0 else 0.0
        return -reach, reach
    if rule.quantity is Quantity.PROBABILITY_DIFFERENCE:
        return -_reach(None if low is None else -low), _reach(high)
    if rule.quantity is Quantity.ABS_PROBABILITY_DIFFERENCE and low is None:
        return -_reach(high), _reach(high)
    return None


def _reach(delta: float | None) -> float:
    """Smallest abs(d) at which a probability can have moved by more than delta."""
    if delta is None:
        return math.inf
    inside = 1.0 - delta * math.exp(-MAX_POSITIVE)
    return math.inf if inside <= 0 else -math.log(inside) if delta > 0 else 0.0
