"""The settings of one row that come nearest to a correction: its words tried, its bounds read off where they go.

Each option with a number is given one that no other has. Where it turns up in what the row then does is where the bound
that is wanted belongs, itself, as its reciprocal or as its logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice, product

from iscope.errors import UsageError
from iscope.recipes.configs.essence import Essence, differences, essence
from iscope.recipes.grammar import bind
from iscope.recipes.model import BoundRecipe, Framework, Option, Recipe
from iscope.recipes.options import Value
from iscope.recipes.registry import find

# Combinations of words that are tried, and of those the nearest that get the bounds that are wanted.
_MOST, _NEAREST = 500, 8
# Where a bound must be given and none is wanted.
_NO_LOWER, _TINY, _HUGE = 0.0, 1e-9, 1e9

_Probe = tuple[Mapping[str, Value], Essence]


def nearest_settings(row: str, wanted: Essence) -> Iterator[BoundRecipe]:
    """Yield a row of a framework's table under settings that may do what is wanted, likely ones first."""
    owner, template = find(row)
    probes = sorted(_probes(row), key=lambda probe: sum(1 for _ in differences(wanted, probe[1])))
    for tried, probe in probes[:_NEAREST]:
        bounds = dict(_bounds(template.options, tried, probe, wanted))
        free = (option for option in template.options if _is_free(option, tried, bounds))
        plain = {**tried, **{option.short: option.default for option in free}}
        for filled in (bounds, _filled(bounds, _NO_LOWER), _filled(bounds, _TINY)):
            found = bound_or_none(template, owner, plain | filled) or bound_or_none(
                template, owner, {**tried, **filled}
            )
            if found is not None:
                yield found
                break


def bound_or_none(row: Recipe, owner: Framework, options: Mapping[str, Value]) -> BoundRecipe | None:
    """Return the row with these options, or None where it refuses them."""
    try:
        return bind(row, owner, options)
    except UsageError:
        return None


@lru_cache(maxsize=256)
def _probes(name: str) -> tuple[_Probe, ...]:
    """What the row does under each combination of its words, once for each thing it can do."""
    owner, row = find(name)
    tries = [_tries(option, place) for place, option in enumerate(row.options)]
    if math.prod(map(len, tries)) > _MOST:  # then a number is not tried as none: a bound not wanted becomes none later
        tries = [values if isinstance(values[0], str | bool) else values[:1] for values in tries]
    found: dict[object, _Probe] = {}
    for values in islice(product(*tries), _MOST):
        tried = {option.short: value for option, value in zip(row.options, values, strict=True)}
        recipe = bound_or_none(row, owner, tried)
        if recipe is not None:
            probe = essence(recipe)
            found.setdefault((probe.shape, probe.numbers), (tried, probe))
    return tuple(found.values())


def _is_free(option: Option, tried: Mapping[str, Value], bounds: Mapping[str, Value]) -> bool:
    """Whether an option's number went nowhere that is wanted."""
    return option.short not in bounds and option.kind in ("float", "pair", "pairs") and tried[option.short] is not None


def _filled(bounds: Mapping[str, Value], low: float) -> dict[str, Value]:
    """The bounds with numbers in place of none."""
    return {name: (low if _is_lower(name) else _HUGE) if value is None else value for name, value in bounds.items()}


def _tries(option: Option, place: int) -> list[Value]:
    """Values to try for an option: its words, or a number that no other option has, to see where it goes."""
    low, high = round(0.1 + place / 1000, 6), round(3 + place / 100, 6)
    none: list[Value] = [None] if option.nullable else []
    match option.kind:
        case "bool":
            return [option.default, not option.default]
        case "choice" | "names":
            return [*option.choices, *none]
        case "pair" | "pairs":
            return [high, f"{low}_{high}", *none]
        case "int":
            return [option.default]
    return [low if _is_lower(option.short) else high, *none]


def _is_lower(name: str) -> bool:
    return name.endswith(("low", "min", "lower"))


def _bounds(
    options: tuple[Option, ...], tried: Mapping[str, Value], probe: Essence, wanted: Essence
) -> Iterator[tuple[str, Value]]:
    """Options with the bounds wanted in the places where the numbers that were tried went."""
    if len(probe.numbers) != len(wanted.numbers):
        slots = list(zip(probe.numbers[:2], wanted.numbers[:2], strict=True))
    else:
        slots = list(zip(probe.numbers, wanted.numbers, strict=True))
    for option in options:
        value = tried[option.short]
        if isinstance(value, bool) or option.kind in ("bool", "choice", "names", "int"):
            continue
        if isinstance(value, float):
            yield from ((option.short, found) for found in _seen(value, slots))
        elif isinstance(value, str):
            ends = [next(_seen(float(end), slots), None) for end in value.split("_")]
            filled = [other if end is None else end for end, other in zip(ends, (_TINY, _HUGE), strict=True)]
            yield option.short, "_".join(repr(end) for end in filled)


def _seen(number: float, slots: list[tuple[float | None, float | None]]) -> Iterator[float | None]:
    """What is wanted where the number, or its reciprocal, went."""
    for probe, wanted in slots:
        if probe is not None and abs(probe - number) < 1e-9:
            yield wanted
            return
        if probe is not None and abs(probe * number - 1) < 1e-9:
            yield None if wanted is None else 1 / wanted
            return
        if probe is not None and math.isclose(probe, math.exp(number), rel_tol=1e-9):
            yield None if not wanted else round(math.log(wanted), 12)
            return
