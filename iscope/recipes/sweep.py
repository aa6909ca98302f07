"""Sweeps: ``OPTION=values`` over the recipes that have the option, one bound recipe per combination."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from iscope.errors import UsageError, did_you_mean
from iscope.recipes.grammar import bind
from iscope.recipes.model import BoundRecipe, Option
from iscope.recipes.options import Value, accepted_names, check_value, read_value
from iscope.recipes.registry import framework

# More settings than anybody reads, and than a report should hold.
MOST_SETTINGS = 20_000

_RANGE = re.compile(r"(?P<low>[^:]+):(?P<high>[^:]+):(?P<count>\d{1,5})(?P<log>:log)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Sweep:
    """The values that an option takes.

    Attributes:
        option: its name, in any form that a recipe accepts.
        values: as text, in the order given.
    """

    option: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Settings:
    """The settings of a comparison.

    Attributes:
        recipes: every setting, recipe by recipe, the first sweep's values varying slowest; each once.
        swept: whether each came from a sweep.
        skipped: combinations that a recipe refuses, by its name.
        why: the first refusal of each recipe that has some, by its name.
    """

    recipes: tuple[BoundRecipe, ...]
    swept: tuple[bool, ...]
    skipped: dict[str, int] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)


def read_sweep(text: str) -> Sweep:
    """Return the sweep that ``OPTION=VALUE,...`` spells; ``LOW:HIGH:COUNT`` is evenly spaced, with ``:log`` in ratio.

    Raises:
        UsageError: when it is not one.
    """
    option, equals, rest = (part.strip() for part in text.partition("="))
    if not option or not equals or not rest:
        raise UsageError(
            f"a sweep is OPTION=VALUE,... or OPTION=LOW:HIGH:COUNT[:log], such as clip_max=1.5,2,3,5, not {text!r}."
        )
    pieces = [piece.strip() for piece in rest.split(",")]
    if "" in pieces:
        raise UsageError(f"the sweep {text!r} has an empty value; separate values with one comma.")
    values = [value for piece in pieces for value in (_range(text, piece) if ":" in piece else [piece])]
    return Sweep(option, tuple(dict.fromkeys(values)))


def expand(recipes: Sequence[BoundRecipe], sweeps: Iterable[str | Sweep]) -> Settings:
    """Return every recipe at every combination of the swept options it has.

    Args:
        recipes: the recipes; of one that was named, what it was given is not to be swept.
        sweeps: what is swept.

    Raises:
        UsageError: when a sweep is malformed or repeated, no recipe has its option or can take its values, an option is
            given beside its sweep, everything is refused, or there are more than 20,000 settings.
    """
    wanted = [read_sweep(sweep) if isinstance(sweep, str) else sweep for sweep in sweeps]
    plans = [_plan(recipe, wanted) for recipe in recipes]
    _check_used(recipes, wanted)
    count = sum(math.prod(len(values) for _, values in plan) for plan in plans)
    if count > MOST_SETTINGS:
        raise UsageError(f"the sweep has {count:,} settings, more than {MOST_SETTINGS:,}; take fewer values.")
    found: dict[BoundRecipe, bool] = {}
    skipped: dict[str, int] = {}
    why: dict[str, str] = {}
    for recipe, plan in zip(recipes, plans, strict=True):
        for setting in _settings(recipe, plan):
            if isinstance(setting, UsageError):
                skipped[recipe.name] = skipped.get(recipe.name, 0) + 1
                why.setdefault(recipe.name, str(setting))
            else:
                found.setdefault(setting, bool(plan))
    if why and not found:
        raise UsageError(f"no combination of the sweep is possible: {next(iter(why.values()))}")
    return Settings(tuple(found), tuple(found.values()), skipped, why)


def _range(text: str, piece: str) -> list[str]:
    found = _RANGE.fullmatch(piece)
    ends = [found[name].strip() for name in ("low", "high")] if found else []
    if found is None or not all(_NUMBER.fullmatch(end) for end in ends):
        raise UsageError(f"the sweep {text!r}: {piece!r} is not LOW:HIGH:COUNT or LOW:HIGH:COUNT:log.")
    (low, high), count, log = map(float, ends), int(found["count"]), bool(found["log"])
    if count < 2 or not math.isfinite(low) or not math.isfinite(high) or low == high:
        raise UsageError(f"the sweep {text!r}: a range takes two different ends and at least 2 values.")
    if log and (low <= 0 or high <= 0):
        raise UsageError(f"the sweep {text!r}: a range in ratio takes ends above 0.")
    inner = [_between(low, high, place / (count - 1), log=log) for place in range(1, count - 1)]
    return [ends[0], *(f"{value:.12g}" for value in inner), ends[1]]


def _between(low: float, high: float, share: float, *, log: bool) -> float:
    return low * (high / low) ** share if log else low + (high - low) * share


def _options(recipe: BoundRecipe) -> tuple[Option, ...]:
    return (*recipe.row.options, *framework(recipe.framework).loss_options)


def _option(recipe: BoundRecipe, name: str) -> Option | None:
    return next((option for option in _options(recipe) if name in accepted_names(option)), None)


def _plan(recipe: BoundRecipe, sweeps: Sequence[Sweep]) -> list[tuple[Option, list[Value]]]:
    """The options of a recipe that are swept, and their values, checked one by one; a configuration stays as it is."""
    if recipe.like:
        return []
    plan: list[tuple[Option, list[Value]]] = []
    for sweep in sweeps:
        option = _option(recipe, sweep.option)
        if option is None:
            continue
        if option.short in (other.short for other, _ in plan):
            raise UsageError(f"{recipe.name}: {option.short} is swept twice; put all values into one sweep.")
        if recipe.named and option.short in recipe.given:
            raise UsageError(f"{recipe.name}: {option.short} is given and swept; leave it out of the recipe.")
        plan.append((option, [check_value(recipe.name, option, read_value(option, text)) for text in sweep.values]))
    return plan


def _check_used(recipes: Sequence[BoundRecipe], sweeps: Sequence[Sweep]) -> None:
    recipes = [recipe for recipe in recipes if not recipe.like]
    for sweep in sweeps:
        if not any(_option(recipe, sweep.option) for recipe in recipes):
            known = dict.fromkeys(name for recipe in recipes for o in _options(recipe) for name in accepted_names(o))
            listed = ", ".join(dict.fromkeys(recipe.name for recipe in recipes)) or "none is named"
            raise UsageError(
                f"no recipe has the option {sweep.option!r} that is swept ({listed})."
                f"{did_you_mean(sweep.option, known)}"
            )


def _settings(recipe: BoundRecipe, plan: Sequence[tuple[Option, list[Value]]]) -> Iterator[BoundRecipe | UsageError]:
    """Every combination, as a setting or as the refusal of the recipe."""
    if not plan:
        yield recipe
        return
    table = framework(recipe.framework)
    given = {name: recipe.options[name] for name in recipe.given}
    for values in product(*(values for _, values in plan)):
        chosen = {option.short: value for (option, _), value in zip(plan, values, strict=True)}
        try:
            yield replace(bind(recipe.row, table, given | chosen), named=recipe.named, like=recipe.like)
        except UsageError as refusal:
            yield refusal
