"""Breakdowns: the same figures per value of a column."""

from __future__ import annotations

from rich.text import Text

from iscope.model import Figures, Node, Report
from iscope.render.nodes import figure, scalars
from iscope.render.numbers import count, number, percent
from iscope.render.strings import clean, elide
from iscope.render.terminal.page import wrap
from iscope.render.terminal.table import Cell, Column, Form, Label, cell, table

_ROWS = 24
_NATS = "k1 = mean(-d), k3 = mean(exp(d)-1-d) and -log p (trainer): nats per scored token; max |d|: nats"
_ESS = "ESS: (sum rho)^2 / sum rho^2 of the raw ratios, token over tokens, sequence exp(S) over rollouts, as a share"
_KNOWN: dict[str, tuple[tuple[str, ...], Form, str | None]] = {
    "rollouts": (("rollouts",), count, None),
    "tokens": (("scored", "tokens"), count, None),
    "k1": (("k1",), number, _NATS),
    "k3": (("k3",), number, _NATS),
    "abs_max": (("max", "|d|"), number, _NATS),
    "ess_token_fraction": (("ESS", "token"), percent, _ESS),
    "ess_sequence_fraction": (("ESS", "sequence"), percent, _ESS),
    "minus_log_p": (("-log p",), number, _NATS),
    "length": (("length", "tokens"), number, None),
    "reward": (("reward",), number, None),
    "zero_advantage": (("A=0",), percent, "A=0: share of rollouts"),
}


def breakdowns(report: Report, width: int, *, verbose: bool) -> list[Text]:
    """Return one table per column; of a long one the first and last rows unless ``verbose``."""
    return [line for by, rows in report.breakdowns.items() for line in _breakdown(by, rows, width, verbose=verbose)]


def _breakdown(by: str, rows: list[Figures], width: int, *, verbose: bool) -> list[Text]:
    name = elide(clean(by), 40)
    shown = rows if verbose or len(rows) <= _ROWS else [*rows[: _ROWS // 2], *rows[-_ROWS // 2 :]]
    labels = [Label(_value(row.get("value"))) for row in shown]
    flat = [dict(scalars({key: node for key, node in row.items() if key != "value"})) for row in shown]
    keys = dict.fromkeys(key for row in flat for key in row)
    columns = [_column(key, [row.get(key) for row in flat], verbose=verbose) for key in keys]
    lines = table(f"BY {name}", labels, columns, width)
    hidden = len(rows) - len(shown)
    if hidden:
        text = f"  {count(hidden)} of {count(len(rows))} rows in the middle not shown; --verbose shows them"
        lines.extend(wrap(text, width, 4))
    return lines


def _column(key: str, nodes: list[Node], *, verbose: bool) -> Column:
    fallback: Form = percent if key.endswith("fraction") else number
    head, form, legend = _KNOWN.get(key, ((elide(clean(key), 30),), fallback, None))
    return Column(head, [_cell(node, form, interval=verbose) for node in nodes], legend)


def _cell(node: Node, form: Form, *, interval: bool) -> Cell:
    if isinstance(node, str | bool):
        return Cell(elide(clean(node), 20))
    return cell(node, form, interval=interval)


def _value(node: Node) -> str:
    found = figure(node)
    if found is not None and found.value is not None and not isinstance(node, int):
        return number(found.value)
    return "(none)" if node is None else elide(clean(node), 60) or "(empty)"
