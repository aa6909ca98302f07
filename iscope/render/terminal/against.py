"""Two dumps side by side: what changed in sentences, then the figures and their differences."""

from __future__ import annotations

from rich.text import Text

from iscope.model import Figures, Node, Report
from iscope.render.nodes import at, figure
from iscope.render.numbers import count, number
from iscope.render.strings import clean, elide, prose
from iscope.render.terminal.labels import label
from iscope.render.terminal.page import wrap
from iscope.render.terminal.table import Cell, Column, Label, cell, table

_DIFFERENCE = (
    "difference: here - there, with its 95% interval: *, pairs, prompts or groups of both resampled together; else put "
    "together from the intervals of both as if they were independent"
)
# Shown unless everything was asked for, of the mismatch and of a recipe.
_HEADLINES = (
    "k1",
    "k3",
    "gap",
    "abs_mean",
    "abs_max",
    "minus_log_p",
    "minus_log_q",
    "ratio.token.mean",
    "ratio.token.outside_half_two",
    "ratio.sequence.ess_fraction",
    "variance_ratio",
    "sampler_check",
    "khat.token",
)
_OF_RECIPE = ("effective_batch_size", "gradient_left.all", "gradient_left.negative", "product_left")
_MOST_RECIPES = 5


def against(report: Report, width: int, *, verbose: bool) -> list[Text]:
    """Return how two dumps were paired, what changed, and the figures side by side."""
    found = report.parts.get("against")
    if not isinstance(found, dict):
        return []
    lines = _paragraph(
        "THERE", f"{clean(at(found, 'verdict', 'word'))}: {prose(at(found, 'verdict', 'message'))}", width
    )
    lines += _paragraph("PAIRING", prose(at(found, "pairing", "why")), width)
    changed = found.get("changed")
    for sentence in changed if isinstance(changed, list) else []:
        lines += _paragraph("CHANGED", prose(sentence), width)
    rows = found.get("figures")
    listed = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return lines + _table(report, listed, width, verbose=verbose)


def _paragraph(word: str, text: str, width: int) -> list[Text]:
    lines = wrap(f"{word} {text}", width, 2)
    lines[0].stylize("bold", 0, len(word))
    return lines


def _table(report: Report, rows: list[Figures], width: int, *, verbose: bool) -> list[Text]:
    names = {f"recipes.{recipe.spec}.": label(recipe) for recipe in report.recipes}
    shown = [row for row in rows if verbose or _headline(str(row.get("path")), list(names))]
    if not shown:
        return []
    columns = [
        Column(("here",), [_number(row.get("here")) for row in shown]),
        Column(("there",), [_number(row.get("there")) for row in shown]),
        Column(("difference",), [_difference(row) for row in shown], _DIFFERENCE),
    ]
    labels = [Label(_name(str(row.get("path")), names)) for row in shown]
    lines = table("FIGURE", labels, columns, width)
    if len(shown) < len(rows):
        lines += wrap(f"  {count(len(rows) - len(shown))} more figures with --verbose and in JSON", width, 4)
    return lines


def _headline(path: str, prefixes: list[str]) -> bool:
    if path.startswith("batch."):
        return True
    if path.startswith("mismatch."):
        return path.removeprefix("mismatch.") in _HEADLINES
    return any(
        path.startswith(prefix) and path.removeprefix(prefix) in _OF_RECIPE for prefix in prefixes[:_MOST_RECIPES]
    )


def _name(path: str, names: dict[str, str]) -> str:
    for prefix, name in names.items():
        if path.startswith(prefix):
            return f"{name}: {clean(path.removeprefix(prefix))}"
    return elide(clean(path.removeprefix("mismatch.").removeprefix("batch.")), 80)


def _number(node: Node) -> Cell:
    return cell(node, number)


def _difference(row: Figures) -> Cell:
    found = figure(row.get("difference"))
    shown = cell(row.get("difference"), number, interval=True)
    resampled = row.get("interval") == "resampled" and found is not None and found.low is not None
    return Cell(f"{shown.text} *", shown.why) if resampled else shown
