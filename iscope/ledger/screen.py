"""The screen: the band of log-ratios inside which no recipe of a plan acts on a single token.

Inside it every token keeps its plain weight, so such tokens are summed once for all recipes; only the few outside are
replayed per recipe. A bound on the ratio acts beyond its own log. A bound on a probability difference p - q acts beyond
-log(1 - delta e^-0.2): p - q = p (1 - e^-d) and p is at most e^0.2, the largest logprob that is scored. Tokens near the
edge of a band are left outside: there the recipe's own float32 expression decides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from iscope.ledger.plan import Plan
from iscope.recipes.model import BoundRecipe, Filter, Level, Loss, Pair, Quantity, Reduction, bound_value
from iscope.replay.usable import MAX_POSITIVE

# The widest screen: ratios within [1/2, 2], which the reports count on either side.
_WIDEST = math.log(2.0)
# A recipe that acts closer to d = 0 than this would leave most tokens outside; it is replayed on every token instead.
_NARROWEST = 0.05
# Distance from a bound at which rounding could change a decision, relative and absolute.
_MARGIN = 1e-5

COUNTED = (_MARGIN - _WIDEST, _WIDEST - _MARGIN)
"""The band of a pair that no recipe reads token by token: ratios outside [1/2, 2] are counted of every pair."""


@dataclass(frozen=True)
class Screen:
    """Where a plan's recipes can act.

    Attributes:
        low: lower edge of the band, nats.
        high: upper edge of the band, nats.
        dense: indices of the recipes that must see every token.
    """

    low: float
    high: float
    dense: frozenset[int]


def screen_of(plan: Plan) -> Screen:
    """Intersect the quiet bands of a plan's recipes; it holds for every policy pair that the plan reads."""
    low, high = -_WIDEST, _WIDEST
    dense = set()
    for index, recipe in enumerate(plan.recipes):
        band = quiet_band(recipe)
        if band is None or band[0] > -_NARROWEST or band[1] < _NARROWEST:
            dense.add(index)
        else:
            low, high = max(low, band[0]), min(high, band[1])
    return Screen(low + _MARGIN, high - _MARGIN, frozenset(dense))


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
    low, high = _logs(bound_value(rule.low), bound_value(rule.high))
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
    return _logs(bound_value(loss.low), bound_value(loss.high))


def _filter_band(rule: Filter) -> tuple[float, float] | None:
    low, high = bound_value(rule.low), bound_value(rule.high)
    if rule.quantity is Quantity.LOG_RATIO:
        return _open(low, high) if rule.space == "plain" else _logs(low, high)
    if rule.quantity is Quantity.K1:
        below, above = _logs(low, high) if rule.space == "log" else _open(low, high)
        return -above, -below
    if rule.quantity is Quantity.K2 and low is None and rule.space == "plain":
        reach = math.sqrt(2 * high) if high is not None and high > 0 else 0.0
        return -reach, reach
    if rule.quantity is Quantity.PROBABILITY_DIFFERENCE:
        return -_reach(None if low is None else -low), _reach(high)
    if rule.quantity is Quantity.ABS_PROBABILITY_DIFFERENCE and low is None:
        return -_reach(high), _reach(high)
    return None


def _open(low: float | None, high: float | None) -> tuple[float, float]:
    return -math.inf if low is None else low, math.inf if high is None else high


def _logs(low: float | None, high: float | None) -> tuple[float, float]:
    return (
        math.log(low) if low is not None and low > 0 else -math.inf,
        math.inf if high is None else math.log(high) if high > 0 else -math.inf,
    )


def _reach(delta: float | None) -> float:
    """Smallest abs(d) at which a probability can have moved by more than delta."""
    if delta is None:
        return math.inf
    inside = 1.0 - delta * math.exp(-MAX_POSITIVE)
    return math.inf if inside <= 0 else -math.log(inside) if delta > 0 else 0.0


def pairs_to_screen(plan: Plan) -> tuple[Pair, ...]:
    """Pairs whose log-ratio must lie inside the band: trainer over inference, and those of token-level rules."""
    pairs = {Pair.TRAINER_INFERENCE}
    for recipe in plan.recipes:
        if recipe.weight.level is Level.TOKEN:
            pairs.add(recipe.weight.pair)
        pairs |= {rule.pair for rule in recipe.filters if rule.reduction is Reduction.TOKEN}
    return tuple(pair for pair in Pair if pair in pairs and pair is not Pair.CURRENT_REF)
