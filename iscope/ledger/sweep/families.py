"""What of a setting acts on whole rollouts and what on tokens; settings that differ in the bounds of one token rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

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

_NO_WEIGHT = WeightRule()
# Pairs whose sums of log-ratios the ledger always has, if there are current logprobs or not.
_PAIRS = (Pair.TRAINER_INFERENCE, Pair.CURRENT_INFERENCE)


def token_part(setting: BoundRecipe) -> BoundRecipe | None:
    """Return a setting without its rules on whole rollouts, nameless; None where one cannot be taken from another.

    What is left multiplies with what is taken: a weight per rollout, and keep-decisions on rollouts that no other rule
    looks at and no denominator counts.
    """
    loss = setting.loss
    rules: tuple[WeightRule | Filter, ...] = (setting.weight, *setting.filters)
    if not loss.linear_in_weight or setting.weight.normalises or any(rule.sees == "survivors" for rule in rules):
        return None
    if setting.weight.sign < 0 or (loss.sees == "survivors" and loss.level == "sequence" and setting.filters):
        return None
    left = tuple(replace(rule, logged=False) for rule in setting.filters if not _of_rollouts(rule))
    weight = replace(setting.weight, logged=False, cut_logged=False)
    if _weighs_rollouts(weight):
        weight = WeightRule(pair=weight.pair)
    return _nameless(setting, weight, left)


def rollout_part(setting: BoundRecipe) -> BoundRecipe | None:
    """Return a setting with its rules on whole rollouts alone; None where it has none."""
    weighs, filters = _weighs_rollouts(setting.weight), tuple(rule for rule in setting.filters if _of_rollouts(rule))
    if not weighs and not filters:
        return None
    return _nameless(setting, setting.weight if weighs else _NO_WEIGHT, filters)


def rollout_filters(setting: BoundRecipe) -> list[bool]:
    """Whether each filter is one of ``rollout_part``."""
    return [_of_rollouts(rule) for rule in setting.filters]


def _nameless(setting: BoundRecipe, weight: WeightRule, filters: tuple[Filter, ...]) -> BoundRecipe:
    return replace(
        setting,
        name="",
        spec="",
        options={},
        weight=weight,
        filters=filters,
        named=False,
        like="",
        unused=(),
        given=(),
        fitted=(),
    )


def _of_sum(clamp: LogClamp | None) -> bool:
    return clamp is None or clamp.of == "sum"


def _weighs_rollouts(rule: WeightRule) -> bool:
    level = rule.level in (Level.SEQUENCE, Level.GEOMETRIC) and rule.applied and rule.pair in _PAIRS
    return level and rule.function is None and _of_sum(rule.clamp) and rule.decided_by in (None, Reduction.SUM)


def _of_rollouts(rule: Filter) -> bool:
    sums = rule.reduction in (Reduction.SUM, Reduction.MEAN) and rule.quantity is Quantity.LOG_RATIO
    plain = rule.function is None and rule.mean_high is None and not rule.pushed_only and _of_sum(rule.clamp)
    signed = (rule.low_signs, rule.high_signs) != (Signs.ANY, Signs.ANY)
    return sums and plain and not signed and rule.pair in _PAIRS and not rule.drops and not rule.masks_penalty


@dataclass(frozen=True)
class TokenFamily:
    """Settings that differ in the bounds of one rule on tokens.

    Attributes:
        kind: ``mask``: the rule is a filter; ``truncate``: it is the weight.
        lows: the lower bounds there are, the highest (innermost) first, in the space that the rule compares in.
        highs: the upper bounds there are, the lowest (innermost) first.
        settings: for each setting which of them are in force; None is no bound.
        tight: a recipe with the innermost bounds.
        recipe: its place in the plan.
    """

    kind: Literal["mask", "truncate"]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    settings: tuple[tuple[int | None, int | None], ...]
    tight: BoundRecipe
    recipe: int = -1

    @staticmethod
    def body_of(part: BoundRecipe) -> BoundRecipe:
        """Return a token part without the bounds of its rule: settings of a family share it."""
        if part.filters:
            rule = part.filters[-1]
            return replace(part, filters=(*part.filters[:-1], replace(rule, low=None, high=None)))
        return replace(part, weight=replace(part.weight, low=None, high=None))


def token_family(settings: Sequence[BoundRecipe]) -> TokenFamily | None:
    """Return the family that these settings, of one body, make up; None where their sums do not follow by interval."""
    parts = [part for setting in settings if (part := token_part(setting)) is not None]
    kind = _kind(parts[0])
    if kind is None or len(parts) != len(settings):
        return None
    bounds = [_bounds(part, kind) for part in parts]
    lows = sorted({low for low, _ in bounds if low is not None}, reverse=True)
    highs = sorted({high for _, high in bounds if high is not None})
    if (lows and highs and lows[0] >= highs[0]) or (kind == "truncate" and highs and highs[0] <= 0):
        return None
    chosen = [
        (None if low is None else lows.index(low), None if high is None else highs.index(high)) for low, high in bounds
    ]
    return TokenFamily(kind, tuple(lows), tuple(highs), tuple(chosen), _tight(parts, bounds, kind))


def _kind(part: BoundRecipe) -> Literal["mask", "truncate"] | None:
    loss, weight = part.loss, part.weight
    if loss.couples_tokens or loss.aggregation.by_group or part.functions or weight.prefix or len(part.filters) > 1:
        return None
    if part.filters:
        return "mask" if _of_tokens(part.filters[0]) else None
    return "truncate" if weight.level is Level.TOKEN and weight.applied and weight.overflow == "keep" else None


def _of_tokens(rule: Filter) -> bool:
    plain = rule.mean_high is None and not rule.pushed_only and rule.nan_kept and rule.acts_on == "token"
    return rule.reduction is Reduction.TOKEN and plain and not rule.drops and not rule.masks_penalty


def _bounds(part: BoundRecipe, kind: str) -> tuple[float | None, float | None]:
    """Bounds of a part's rule as it compares them."""
    rule: Any = part.filters[0] if kind == "mask" else part.weight
    low, high = bound_value(rule.low), bound_value(rule.high)
    return (low, high) if kind == "truncate" or rule.space != "log" else (_log(low), _log(high))


def _log(bound: float | None) -> float | None:
    if bound is None:
        return None
    return math.log(bound) if bound > 0 else -math.inf


def _tight(parts: Sequence[BoundRecipe], bounds: Sequence[tuple[float | None, float | None]], kind: str) -> BoundRecipe:
    """A recipe that acts wherever one of the parts does."""
    rules: list[Any] = [part.filters[0] if kind == "mask" else part.weight for part in parts]
    lows = [(bound[0], rule.low) for bound, rule in zip(bounds, rules, strict=True) if bound[0] is not None]
    highs = [(bound[1], rule.high) for bound, rule in zip(bounds, rules, strict=True) if bound[1] is not None]
    low = max(lows)[1] if lows else None
    high = min(highs)[1] if highs else None
    rule = replace(rules[0], low=low, high=high)
    return replace(parts[0], filters=(rule,)) if kind == "mask" else replace(parts[0], weight=rule)
