"""Breakdowns: the same figures per value of a column."""

from __future__ import annotations

from dataclasses import replace

from rich.text import Text

from iscope.model import Figures, Node, Report
from iscope.render.nodes import figure, scalars
from iscope.render.numbers import count, number, percent
from iscope.render.strings import clean, elide
from iscope.render.terminal.labels import label
from iscope.render.terminal.page import fold, wrap
from iscope.render.terminal.table import Cell, Column, Form, Label, cell, table

_ROWS = 16
_RECIPES = 5  # whose effective batch size is broken down when nobody asks for more
_HEAD_WIDTH, _HEAD_LIMIT = 14, 70  # of a recipe's name above a column: cells a line, characters
_NATS = "k3 = mean(exp(d)-1-d) and -log p (trainer): nats per scored token"
_ESS = "ESS: (sum rho)^2 / sum rho^2 of the raw ratios, token over tokens, sequence exp(S) over rollouts, as a share"
_VARIANCE = "variance ratio: sum(sum(rho-1))^2 / sum((rho-1)^2), 1 on fresh rollouts"
_EFFECTIVE = "effective rollouts: (sum g)^2 / sum g^2 over the row's rollouts, as in the table of recipes"
_EXTRA = ("k1", "tokens", "abs_max", "ess_token_fraction", "ess_sequence_fraction")
_BOUNDED, _ROOMY = ("k3",), 100  # whose intervals are shown unasked, and from what width
_KNOWN: dict[str, tuple[tuple[str, ...], Form, str | None]] = {
    "rollouts": (("rollouts",), count, None),
    "tokens": (("scored", "tokens"), count, None),
    "k1": (("k1",), number, "k1 = mean(-d)"),
    "k3": (("k3",), number, _NATS),
    "abs_max": (("max", "|d|"), number, "max |d|: nats"),
    "ess_token_fraction": (("ESS", "token"), percent, _ESS),
    "ess_sequence_fraction": (("ESS", "sequence"), percent, _ESS),
    "variance_ratio": (("variance", "ratio"), number, _VARIANCE),
    "minus_log_p": (("-log p",), number, _NATS),
    "length": (("length", "tokens"), number, None),
    "reward": (("reward",), number, None),
    "zero_advantage": (("A=0",), percent, "A=0: share of rollouts"),
}


def breakdowns(report: Report, width: int, *, verbose: bool) -> list[Text]:
    """Return the tables of each key; of a long one the first and last rows unless ``verbose``.

    ``p`` is left to the lines on the mismatch by p.
    """
    keys = [by for by in report.breakdowns if by != "p"]
    explained: set[str] = set()
    return [line for by in keys for line in _breakdown(report, by, width, explained, verbose=verbose)]


def _breakdown(report: Report, by: str, width: int, explained: set[str], *, verbose: bool) -> list[Text]:
    """The tables of a key; legends that are among those ``explained`` are left out, the others added to them."""
    rows = report.breakdowns[by]
    shown = rows if verbose or len(rows) <= _ROWS else [*rows[: _ROWS // 2], *rows[-_ROWS // 2 :]]
    labels = [Label(_value(row.get("value"))) for row in shown]
    flat = [dict(scalars({key: node for key, node in row.items() if key != "value"})) for row in shown]
    keys = [key for key in dict.fromkeys(key for row in flat for key in row) if verbose or key not in _EXTRA]
    bounded = keys if verbose else _BOUNDED if width >= _ROOMY else ()
    columns = [_column(key, [row.get(key) for row in flat], interval=key in bounded) for key in keys]
    corner = f"BY {elide(clean(by), 40)}"
    hidden = _hidden(len(rows), len(shown), width)
    lines = table(corner, labels, _without(columns, explained), width) + hidden
    effective = _effective(report, shown, verbose=verbose)
    if effective:
        lines += table(f"{corner}, effective rollouts", labels, _without(effective, explained), width) + hidden
    explained |= {column.legend for column in (*columns, *effective) if column.legend and _filled(column)}
    return lines


def _without(columns: list[Column], explained: set[str]) -> list[Column]:
    return [replace(column, legend=None) if column.legend in explained else column for column in columns]


def _filled(column: Column) -> bool:
    return any(cell.text for cell in column.cells)


def _hidden(rows: int, shown: int, width: int) -> list[Text]:
    if rows == shown:
        return []
    text = f"{count(rows - shown)} of {count(rows)} rows in the middle not shown; --verbose and JSON have all"
    return wrap(f"  {text}", width, 4)


def _effective(report: Report, rows: list[Figures], *, verbose: bool) -> list[Column]:
    """One column per recipe: the effective batch size of each row's rollouts.

    Unless ``verbose`` only for the first recipes and those that the user named.
    """
    names = {
        recipe.spec: label(recipe)
        for place, recipe in enumerate(report.recipes)
        if verbose or recipe.named or place < _RECIPES
    }
    by_spec: dict[str, list[Node]] = {}
    for index, row in enumerate(rows):
        for entry in _entries(row.get("recipes")):
            nodes = by_spec.setdefault(str(entry.get("spec")), [None] * len(rows))
            nodes[index] = entry.get("effective_batch_size")
    return [
        Column(_head(names[spec]), [cell(node, number, interval=verbose) for node in nodes], _EFFECTIVE)
        for spec, nodes in by_spec.items()
        if spec in names
    ]


def _head(name: str) -> tuple[str, ...]:
    return tuple(fold(elide(clean(name), _HEAD_LIMIT), _HEAD_WIDTH))


def _entries(node: Node) -> list[Figures]:
    return [entry for entry in node if isinstance(entry, dict)] if isinstance(node, list) else []


def _column(key: str, nodes: list[Node], *, interval: bool) -> Column:
    fallback: Form = percent if key.endswith("fraction") else number
    head, form, legend = _KNOWN.get(key, ((elide(clean(key), 30),), fallback, None))
    return Column(head, [_cell(node, form, interval=interval) for node in nodes], legend)


def _cell(node: Node, form: Form, *, interval: bool) -> Cell:
    if isinstance(node, str | bool):
        return Cell(elide(clean(node), 20))
    return cell(node, form, interval=interval)


def _value(node: Node) -> str:
    found = figure(node)
    if found is not None and found.value is not None and not isinstance(node, int):
        return number(found.value)
    return "(none)" if node is None else elide(clean(node), 60) or "(empty)"
