"""What a correction does, freed of how its framework writes it, so that recipes of two frameworks can be compared.

Left out is what tells apart only in extreme or empty rollouts (limits on log-ratios, NaN, a bound met exactly), and
whether what is rejected leaves the denominators.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from iscope.errors import UsageError
from iscope.recipes.model import (
    BoundRecipe,
    Filter,
    Level,
    Loss,
    Pair,
    Quantity,
    Reduction,
    Signs,
    WeightRule,
    bound_value,
)

_REDUCTIONS = {
    Reduction.SUM: "product of the token ratios",
    Reduction.MEAN: "geometric mean of the token ratios",
    Reduction.MIN: "smallest token ratio",
    Reduction.MAX: "largest token ratio",
}
_CLOSE = 1e-9
# Largest exponent of a float.
_MOST = 700.0


@dataclass(frozen=True)
class Decision:
    """A keep-decision.

    Attributes:
        kind: what is tested and what is rejected; two tests of one kind differ in their bounds only.
        low: lower bound, of the ratio where the statistic is a log-ratio; None is none.
        high: upper bound.
    """

    kind: tuple[str | bool, ...]
    low: float | None
    high: float | None

    def of(self, pair: Pair) -> tuple[str | bool, ...]:
        """Its kind, without the policies where they are these."""
        return tuple("" if part == str(pair) else part for part in self.kind)

    def __str__(self) -> str:
        """The test in words, without its policies."""
        quantity, reduction, _, acts_on, signs, *_ = self.kind
        over = Reduction(str(reduction))
        if quantity == Quantity.LOG_RATIO:
            what = _REDUCTIONS.get(over, "token ratio" if acts_on == "token" else "any token ratio")
        else:
            name = str(quantity).replace("_", " ")
            what = name if over is Reduction.TOKEN else f"{over} of the {name}"
        side = f", advantages {signs}" if signs else ""
        return f"{acts_on}s by the {what} outside {_band(self.low, self.high)}{side}"


@dataclass(frozen=True)
class Essence:
    """A correction: its weight and its tests.

    Attributes:
        level: over what the weight's ratio is taken.
        pair: the policies of that ratio; with level none, those of the tests or the loss.
        low: lower truncation of the weight.
        high: upper truncation of the weight.
        normalised: whether the weights are divided by their mean over the batch.
        rest: what else the weight depends on: which ratio decides whether it is cut, whether it is of prefixes.
        tests: in the order of their kinds.
    """

    level: Level
    pair: Pair
    low: float | None
    high: float | None
    normalised: bool
    rest: tuple[str, ...]
    tests: tuple[Decision, ...]

    @property
    def shape(self) -> tuple[object, ...]:
        """All but the numbers."""
        return self.level, self.pair, self.normalised, self.rest, tuple(test.kind for test in self.tests)

    @property
    def numbers(self) -> tuple[float | None, ...]:
        """The bounds, in a fixed order."""
        return (self.low, self.high, *(bound for test in self.tests for bound in (test.low, test.high)))

    def same(self, other: Essence) -> bool:
        """Whether both do the same, bounds but for rounding."""
        return self.shape == other.shape and all(map(_close, self.numbers, other.numbers))


def essence(recipe: BoundRecipe) -> Essence:
    """Return what a recipe's correction does.

    Raises:
        UsageError: when a function computes it, which no data describes.
    """
    weight = recipe.weight
    if weight.function is not None or any(rule.function is not None for rule in recipe.filters):
        raise UsageError(f"{recipe.name}: a function computes it, which no framework's settings can name.")
    applied = weight.applied and weight.level is not Level.NONE
    tests = sorted((_test(rule) for rule in recipe.filters), key=lambda test: tuple(map(str, test.kind)))
    return Essence(
        level=Level(str(weight.level)) if applied else Level.NONE,
        pair=weight.pair if applied else Pair(str(tests[0].kind[2])) if tests else Pair.TRAINER_INFERENCE,
        low=_lower(weight.low) if applied else None,
        high=_number(weight.high) if applied else None,
        normalised=applied and bool(weight.normalise),
        rest=(str(weight.decided_by), str(weight.prefix)) if applied else (),
        tests=tuple(tests),
    )


def does(recipe: BoundRecipe) -> tuple[WeightRule, tuple[Filter, ...], Loss]:
    """Return all that a recipe does; where it has no weight, bounds of the weight do nothing."""
    weight = recipe.weight
    if weight.level is Level.NONE and weight.function is None:
        weight = WeightRule(pair=weight.pair)
    return weight, recipe.filters, recipe.loss


def asides(wanted: BoundRecipe, found: BoundRecipe) -> Iterator[str]:
    """Yield, of two recipes with one essence, what the one found does otherwise in denominators and at extremes."""
    for has, text in (
        (_drops, "what {0} rejects leaves the loss mask, what {1} rejects has weight 0"),
        (_spends, "what {0} rejects has no KL term either, what {1} rejects keeps it"),
        (_limits, "{0} limits log-ratios, {1} does not"),
    ):
        if has(wanted) != has(found):
            one, other = (wanted.name, found.name) if has(wanted) else (found.name, wanted.name)
            yield text.format(one, other)


def _drops(recipe: BoundRecipe) -> bool:
    return any(rule.drops for rule in recipe.filters)


def _spends(recipe: BoundRecipe) -> bool:
    return recipe.loss.penalty is not None and any(rule.masks_penalty for rule in recipe.filters)


def _limits(recipe: BoundRecipe) -> bool:
    return recipe.weight.clamp is not None or any(rule.clamp is not None for rule in recipe.filters)


def differences(wanted: Essence, found: Essence) -> Iterator[str]:
    """Yield what the one found does otherwise than the one wanted, in words that follow its name."""
    if wanted.pair != found.pair:
        yield f"its ratio is {_over(found.pair)}, not {_over(wanted.pair)}"
    if wanted.level != found.level:
        yield f"its weight is {_weight(found.level)}, not {_weight(wanted.level)}"
    elif not (_close(wanted.low, found.low) and _close(wanted.high, found.high)):
        yield f"it keeps the weight within {_band(found.low, found.high)}, not {_band(wanted.low, wanted.high)}"
    if wanted.rest != found.rest and wanted.level == found.level:
        yield "another ratio decides which weights are cut"
    if wanted.normalised != found.normalised:
        yield f"it {'divides' if found.normalised else 'does not divide'} the weights by their mean over the batch"
    mine = {test.of(wanted.pair): test for test in wanted.tests}
    theirs = {test.of(found.pair): test for test in found.tests}
    for kind, test in mine.items():
        if kind not in theirs:
            yield f"it does not reject {test}"
        elif not (_close(test.low, theirs[kind].low) and _close(test.high, theirs[kind].high)):
            yield f"it rejects {theirs[kind]}, not {_band(test.low, test.high)}"
    yield from (f"it rejects {test} besides" for kind, test in theirs.items() if kind not in mine)


def _test(rule: Filter) -> Decision:
    quantity, low, high = rule.quantity, _number(rule.low), _number(rule.high)
    space: str = rule.space
    if quantity in (Quantity.LOG_RATIO, Quantity.K1):
        if space == "plain":
            low, high = _exponential(low), _exponential(high)
        if quantity is Quantity.K1:  # -d between ln L and ln U: d between -ln U and -ln L
            low, high = _inverse(high), _inverse(low)
        quantity, space, low = Quantity.LOG_RATIO, "ratio", _lower(low)
    signs = "" if rule.low_signs is rule.high_signs is Signs.ANY else f"{rule.low_signs} / {rule.high_signs}"
    whole = rule.reduction is not Reduction.TOKEN and not rule.pushed_only
    acts_on = "rollout" if whole else rule.acts_on
    rest = (rule.pushed_only, rule.mean_high is not None, space)
    return Decision((str(quantity), str(rule.reduction), str(rule.pair), acts_on, signs, *rest), low, high)


def _number(value: object) -> float | None:
    number = bound_value(value) if value is not None else None  # type: ignore[arg-type]
    return None if number is None else float(number)


def _lower(value: object) -> float | None:
    """A lower bound of a ratio; 0 is none."""
    number = _number(value)
    return None if number == 0 else number


def _exponential(bound: float | None) -> float | None:
    return None if bound is None else math.exp(min(bound, _MOST))


def _inverse(bound: float | None) -> float | None:
    return None if bound is None else 1 / bound if bound else math.inf


def _close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=_CLOSE)


def _band(low: float | None, high: float | None) -> str:
    return f"{'' if low is None else format(low, '.6g')}..{'' if high is None else format(high, '.6g')}"


def _over(pair: Pair) -> str:
    numerator, _, denominator = str(pair).partition("/")
    return f"{numerator} over {denominator}"


def _weight(level: Level) -> str:
    words = {
        Level.NONE: "1",
        Level.TOKEN: "the token ratio",
        Level.SEQUENCE: "the product of the token ratios",
        Level.GEOMETRIC: "the geometric mean of the token ratios",
    }
    return words[level]
