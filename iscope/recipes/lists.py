"""Values that frameworks write as text: a pair of bounds, ``0.5_2``, and lists with commas, of names or of bounds."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from iscope.errors import UsageError
from iscope.recipes.model import Filter, FilterList

# Kinds of options whose value may hold commas.
LIST_KINDS = ("names", "pairs")

_NUMBER = r"(?ai)(\d+\.?\d*|\.\d+)(e[+-]?\d+)?"


def read_pair(value: object) -> float | str | None:
    """Return a bound as a number, or two as ``low_high``, in one spelling; None for anything else.

    Both are above 0, and the lower one does not exceed the upper one.
    """
    parts = value.strip().split("_") if isinstance(value, str) else [value]
    numbers = [number for part in parts if (number := _positive(part)) is not None]
    if len(numbers) != len(parts) or len(numbers) > 2 or numbers[0] > numbers[-1]:
        return None
    return numbers[0] if len(numbers) == 1 else "_".join(map(_spell, numbers))


def read_pairs(value: object) -> str | None:
    """Return bounds and pairs of bounds, joined by commas, in one spelling; None where one of them is neither."""
    found = [read_pair(item) for item in _items(value)]
    if not found or None in found:
        return None
    return ",".join(_spell(item) if isinstance(item, float) else str(item) for item in found)


def read_names(value: object, choices: Sequence[str]) -> str | None:
    """Return names joined by commas, each once; None where one is not among the choices."""
    found = list(dict.fromkeys(item.strip() if isinstance(item, str) else "" for item in _items(value)))
    return ",".join(found) if found and set(found) <= set(choices) else None


def split_pair(value: float | str) -> tuple[float | None, float]:
    """Return lower and upper bound of what ``read_pair`` returned; a number alone is an upper one."""
    if isinstance(value, float):
        return None, value
    low, high = map(float, value.split("_"))
    return low, high


def part_of(value: object, part: Literal["low", "high", "single"]) -> float | None:
    """Return a part of a pair: its bounds, none for a number alone; or the number alone, none for a pair."""
    if not isinstance(value, float | str):
        return None
    low, high = split_pair(value)
    if part == "single":
        return high if low is None else None
    return None if low is None else low if part == "low" else high


def listed_filters(recipe: str, rule: FilterList, values: Mapping[str, object]) -> Iterator[Filter]:
    """Yield the filters that a recipe's options list, with their bounds.

    Args:
        recipe: its name, for errors.
        rule: which options list them.
        values: of the options, by short name.

    Raises:
        UsageError: when bounds are missing, too many, or of the wrong kind for their filter.
    """
    names = rule.names if isinstance(rule.names, tuple) else tuple(str(values[rule.names.option] or "").split(","))
    if names == ("",):
        return
    option, bounds = rule.bounds.option, values[rule.bounds.option]
    if bounds is None:
        raise UsageError(f"{recipe}: {option} is none, but {' and '.join(names)} needs a bound.")
    each = str(bounds).split(",")
    if len(each) not in (1, len(names)):
        raise UsageError(
            f"{recipe}: {option} holds {len(each)} bounds for {len(names)} filters; give one, or one for each."
        )
    table = {template.name: template for template in rule.table}
    for name, text in zip(names, each * (len(names) // len(each)), strict=True):
        bound = read_pair(text)
        assert bound is not None
        low, high = split_pair(bound)
        yield replace(table[name], low=_lower(recipe, option, name, low, high, name in rule.two_sided), high=high)


def _lower(recipe: str, option: str, name: str, low: float | None, high: float, two_sided: bool) -> float | None:
    if not two_sided and low is not None:
        raise UsageError(f"{recipe}: {name} has an upper bound only, but {option} is a pair for it.")
    if two_sided and low is None:
        if high < 1:
            raise UsageError(f"{recipe}: {name} with one bound keeps 1/bound to bound; {option} must be at least 1.")
        return 1 / high
    return low


def _items(value: object) -> Sequence[object]:
    if isinstance(value, str):
        return value.split(",")
    return value if isinstance(value, list | tuple) else [value]


def _positive(value: object) -> float | None:
    if isinstance(value, str):
        text = value.strip()
        number = float(text) if re.fullmatch(_NUMBER, text) else math.nan
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    else:
        return None
    return number if 0 < number < math.inf else None


def _spell(number: float) -> str:
    return repr(number).removesuffix(".0")
