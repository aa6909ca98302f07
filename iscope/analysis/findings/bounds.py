"""The bounds of replayed recipes on a rollout's log-ratio, and which rollouts each of them hits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iscope.recipes.rules import Level, Quantity, Reduction

if TYPE_CHECKING:
    from iscope.analysis.numbers import Array
    from iscope.analysis.recipe_rows import RecipeRows
    from iscope.recipes.rules import Filter, WeightRule

_LEVELS = {Reduction.SUM: "sequence", Reduction.MEAN: "geometric"}


@dataclass(frozen=True)
class Bound:
    """One bound on the sequence ratio exp(S) or the geometric ratio exp(G).

    Attributes:
        recipe: the recipe it belongs to.
        rule: the filter's name, or ``truncation``.
        level: ``sequence`` or ``geometric``.
        side: ``lower`` or ``upper``.
        log: the bound, nats.
        hit: bool [N], the rollouts beyond it.
    """

    recipe: RecipeRows
    rule: str
    level: str
    side: str
    log: float
    hit: Array

    @property
    def named(self) -> bool:
        """Whether the user asked for the recipe."""
        return self.recipe.recipe.named

    def __str__(self) -> str:
        """Say which bound of which recipe."""
        return f"{self.side} bound {math.exp(self.log):.4g} on the {self.level} ratio of {self.recipe.recipe.spec}"


def bounds_of(recipe: RecipeRows) -> Iterator[Bound]:
    """Yield the bounds of a recipe on a whole rollout's log-ratio."""
    for index, rule in enumerate(recipe.recipe.filters):
        level = _LEVELS.get(rule.reduction) if rule.quantity is Quantity.LOG_RATIO else None
        if level is not None:
            low, high = recipe.rejected(index)
            yield from _sides(recipe, rule.name, level, _logs(rule), (low > 0, high > 0))
    weight = recipe.recipe.weight
    if weight.level in (Level.SEQUENCE, Level.GEOMETRIC) and weight.function is None and weight.applied:
        hits = (recipe.truncated_low > 0, recipe.truncated_high > 0)
        yield from _sides(recipe, "truncation", str(weight.level), _logs(weight), hits)


def _sides(
    recipe: RecipeRows, rule: str, level: str, logs: tuple[float | None, float | None], hits: tuple[Array, Array]
) -> Iterator[Bound]:
    for side, log, hit in zip(("lower", "upper"), logs, hits, strict=True):
        if log is not None:
            yield Bound(recipe, rule, level, side, log, np.asarray(hit, dtype=bool))


def _logs(rule: Filter | WeightRule) -> tuple[float | None, float | None]:
    plain = getattr(rule, "space", "ratio") == "plain"
    low, high = (bound if isinstance(bound, int | float) else None for bound in (rule.low, rule.high))
    return _log(low, plain=plain), _log(high, plain=plain)


def _log(bound: float | None, *, plain: bool) -> float | None:
    if bound is None or plain:
        return bound
    return math.log(bound) if bound > 0 and math.isfinite(bound) else None
