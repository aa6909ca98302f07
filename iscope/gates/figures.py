"""Finding the figures of a path in the JSON form of a report."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from iscope.errors import UsageError, did_you_mean
from iscope.gates.path import Path, Pick, join
from iscope.model import Figure

# What tells the rows of a list apart, in this order.
_KEYS = ("spec", "value", "name", "filter", "level")
_FIGURE = ("value", "low", "high", "why", "log10")
_RANGE = re.compile(r"\s*(\d*\.?\d+(?:e-?\d+)?)\s*-\s*(\d*\.?\d+(?:e-?\d+)?)\s*", re.IGNORECASE)
_ABOVE = re.compile(r"\s*>=\s*(\d*\.?\d+)\s*")
_BELOW = re.compile(r"\s*<\s*(\d*\.?\d+)\s*")
_SHOWN = 8


@dataclass(frozen=True)
class Located:
    """A figure at its place.

    Attributes:
        path: its own path, rows named one by one.
        figure: the figure; absent, with the reason, where there is none.
        key: the value of the last row that was picked, such as a step; None where none was.
    """

    path: str
    figure: Figure
    key: Any = None


def locate(report: Mapping[str, Any], path: Path) -> list[Located]:
    """Return the figures that a path means; a path that leads nowhere gives one that is absent.

    Args:
        report: the JSON form of a report.
        path: where to look.
    """
    return list(_walk(report, path.steps, [], None))


def _walk(node: Any, left: Sequence[str | Pick], gone: list[str | Pick], key: Any) -> Iterator[Located]:
    if not left:
        yield Located(join(gone), figure_of(node), key)
        return
    step, rest = left[0], left[1:]
    if isinstance(step, Pick):
        yield from _rows(node, step, rest, gone, key)
    elif isinstance(node, Mapping) and step in node:
        yield from _walk(node[step], rest, [*gone, step], key)
    else:
        yield Located(join([*gone, *left]), Figure.absent(_missing(node, step, gone)), key)


def _rows(node: Any, pick: Pick, rest: Sequence[str | Pick], gone: list[str | Pick], key: Any) -> Iterator[Located]:
    if not isinstance(node, list):
        yield Located(join([*gone, pick, *rest]), Figure.absent(f"{join(gone)} is no list of rows"), key)
        return
    chosen = node if pick.every else node[-pick.last :] if pick.last else [row for row in node if _is(row, pick)]
    if not chosen:
        why = f"{join(gone)} is empty" if pick.several or not node else _no_row(node, pick, gone)
        yield Located(join([*gone, pick, *rest]), Figure.absent(why), key)
    for row in chosen:
        name = named(row)
        yield from _walk(row, rest, [*gone, Pick(str(name), quoted=True)], name)


def figure_of(node: Any) -> Figure:
    """Return a node of the JSON report as a figure; a group of counts is their sum."""
    if isinstance(node, Mapping) and "value" in node and not isinstance(node["value"], Mapping):
        return Figure(**{name: node[name] for name in _FIGURE if name in node})
    if isinstance(node, Mapping):
        if all(isinstance(child, int) and not isinstance(child, bool) for child in node.values()):
            return Figure(sum(node.values()))
        return Figure.absent(f"it is a group of figures: {_some(node)}")
    if isinstance(node, bool) or not isinstance(node, int | float) or not math.isfinite(node):
        return Figure.absent("it is a list of rows: pick one in brackets" if isinstance(node, list) else "no number")
    return Figure(node)


def named(row: Any) -> Any:
    """Return what tells a row of a list apart: its recipe, value or bounds."""
    if not isinstance(row, Mapping):
        return row
    if row.get("low") is not None and row.get("high") is not None and "spec" not in row and _plain(row["low"]):
        return f"{row['low']:g}-{row['high']:g}"
    return next((row[name] for name in _KEYS if name in row), None)


@cache
def canonical(spec: str) -> str:
    """Return a recipe as reports write it; as it is where it is none that iscope knows."""
    from iscope.recipes.grammar import parse

    try:
        return parse(spec).spec
    except UsageError:
        return spec


def is_meant(path: Path, other: Path) -> bool:
    """Return whether a path means the figure at another one, of which every row is named."""
    if len(path.steps) != len(other.steps):
        return False
    return all(
        isinstance(there, Pick) and (step.every or _same(step.text, there.text))
        if isinstance(step, Pick)
        else step == there
        for step, there in zip(path.steps, other.steps, strict=True)
    )


def _same(text: str, name: str) -> bool:
    """Whether a text picks the row of this name."""
    bounds = _bounds(text)
    return name in (text, canonical(text)) or (bounds is not None and bounds == _bounds(name))


def _is(row: Any, pick: Pick) -> bool:
    name = str(named(row))
    if isinstance(row, Mapping) and "spec" in row:
        return name in (pick.text, canonical(pick.text))
    bounds = _bounds(pick.text)
    if bounds and isinstance(row, Mapping) and _plain(row.get("low")) and _plain(row.get("high")):
        return math.isclose(row["low"], bounds[0]) and math.isclose(row["high"], bounds[1])
    return name == pick.text or (isinstance(row, Mapping) and str(row.get("value")) == pick.text)


def _bounds(text: str) -> tuple[float, float] | None:
    """The bounds of a bucket of probabilities: ``.5-.9``, ``>=.9``, ``<.1``."""
    for form, low, high in ((_RANGE, None, None), (_ABOVE, None, 1.0), (_BELOW, 0.0, None)):
        found = form.fullmatch(text)
        if found:
            numbers = iter(found.groups())
            return float(next(numbers)) if low is None else low, float(next(numbers)) if high is None else high
    return None


def _plain(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _missing(node: Any, name: str, gone: Sequence[str | Pick]) -> str:
    where = join(gone)
    if where == "breakdowns":
        return f"the report has no breakdown by {name}"
    if not isinstance(node, Mapping):
        return f"{where} is a list of rows: pick one in brackets" if isinstance(node, list) else f"{where} ends there"
    if isinstance(node.get("why"), str) and "spec" in node:
        return str(node["why"])
    return f"{where} has no {name!r}.{did_you_mean(name, map(str, node))}".rstrip(".")


def _no_row(rows: Sequence[Any], pick: Pick, gone: Sequence[str | Pick]) -> str:
    names = [str(named(row)) for row in rows]
    more = ", ..." if len(names) > _SHOWN else ""
    hint = did_you_mean(pick.text, names)
    return f"{join(gone)} has no {pick.text!r}, only {', '.join(names[:_SHOWN])}{more}.{hint}".rstrip(".")


def _some(group: Mapping[str, Any]) -> str:
    names = list(map(str, group))
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
