"""How heavy the tail of the raw ratios is: Pareto k-hat with its class and the threshold, in a line or two."""

from __future__ import annotations

from rich.text import Text

from iscope.model import Figures, Node, Report
from iscope.render.nodes import at, figure
from iscope.render.numbers import count, number
from iscope.render.strings import clean
from iscope.render.terminal.page import flow, wrap
from iscope.render.terminal.table import cell, reasons

_HEAD = "TAIL"
_NAME = " Pareto k-hat of the largest raw ratios, trainer over inference"
_LEGEND = ": below 0.5 they have a variance, from 1 on no mean; above the threshold so few draws tell no mean reliably"
_NAMES = {"token": ("token exp(d)", "tokens"), "sequence": ("sequence exp(S)", "rollouts")}


def tail(report: Report, width: int, *, verbose: bool) -> list[Text]:
    """Return one piece per level and policy pair; nothing where the report has no k-hat."""
    found = at(report.mismatch, "khat")
    if not isinstance(found, dict):
        return []
    current = found.get("current")
    groups = [*_levels(found, ""), *(_levels(current, "current/inference ") if isinstance(current, dict) else [])]
    if not groups:
        return []
    lines = wrap(_HEAD + _NAME + (_LEGEND if verbose else ""), width, 2)
    lines[0].stylize("bold", 0, len(_HEAD))
    pieces = [_piece(name, unit, node) for name, unit, node in groups if _value(node) is not None]
    absent = [(name, [cell(node, number)]) for name, _, node in groups]
    return lines + flow(pieces, width) + reasons(absent, width)


def _levels(group: Figures, prefix: str) -> list[tuple[str, str, Figures]]:
    nodes = [(name, group.get(level)) for level, name in _NAMES.items()]
    return [(f"{prefix}{name}", unit, node) for (name, unit), node in nodes if isinstance(node, dict)]


def _piece(name: str, unit: str, node: Figures) -> str:
    value, threshold = _value(node), _value(node.get("threshold"))
    said = f"{name} {number(value or 0.0)} {clean(node.get('class', ''))}".rstrip()
    draws = node.get("draws")
    over = f"{count(draws)} {unit}" if isinstance(draws, int) else unit
    if value is not None and threshold is not None and value > threshold:
        return f"{said}, ABOVE the threshold {number(threshold)} of {over}"
    return f"{said} ({over})"


def _value(node: Node) -> float | None:
    found = figure(node)
    return None if found is None else found.value
