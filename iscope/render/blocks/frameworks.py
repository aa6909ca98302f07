"""The metrics that frameworks log, under their own names."""

from __future__ import annotations

from iscope.model import Node, RecipeReport, Report
from iscope.render.blocks.cells import Cell, Head, Row, Table, cell, table, word
from iscope.render.nodes import scalars
from iscope.render.numbers import ratio
from iscope.render.strings import clean, elide
from iscope.render.terminal.labels import label

_MOST = 40


def framework_tables(report: Report) -> list[Table]:
    """Return the metrics that each recipe's framework logs, of so many recipes at most."""
    logged = [recipe for recipe in report.recipes if recipe.framework][:_MOST]
    return [_logged(recipe) for recipe in logged]


def _logged(recipe: RecipeReport) -> Table:
    nodes = [(name, node) for name, node in scalars(recipe.framework) if node is not None]
    rows = [Row(elide(clean(name), 120), [_metric(node)]) for name, node in nodes]
    return table(f"As logged under {label(recipe)}.", "metric", [Head("value")], rows)


def _metric(node: Node) -> Cell:
    return word(node) if isinstance(node, str | bool) else cell(node, ratio)
