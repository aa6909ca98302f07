"""The metrics that a framework logs, under its own names: to hold against one's training curves."""

from __future__ import annotations

from rich.text import Text

from iscope.model import RecipeReport, Report
from iscope.render.nodes import scalars
from iscope.render.numbers import ratio
from iscope.render.strings import clean, elide
from iscope.render.terminal.page import flow, wrap
from iscope.render.terminal.recipes import spec
from iscope.render.terminal.table import cell, reasons


def framework(report: Report, width: int, *, verbose: bool) -> list[Text]:
    """Return one block per recipe that the user named or, ``verbose``, each, where its framework logs anything."""
    chosen = [recipe for recipe in report.recipes if recipe.framework and (verbose or recipe.named)]
    return [line for recipe in chosen for line in _block(recipe, width)]


def _block(recipe: RecipeReport, width: int) -> list[Text]:
    lines = wrap(f"LOGGED as the framework's own metrics under {spec(recipe)}", width, 2)
    lines[0].stylize("bold", 0, len("LOGGED"))
    cells = {elide(clean(name), 100): cell(node, ratio) for name, node in scalars(recipe.framework)}
    pieces = [f"{name} {found.text}" for name, found in cells.items() if found.text]
    return lines + flow(pieces, width) + reasons([(name, [found]) for name, found in cells.items()], width)
