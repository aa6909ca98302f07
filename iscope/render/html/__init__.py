"""The report as one HTML file that loads nothing: the verdict first, charts, tables, and every definition."""

from __future__ import annotations

from typing import Any

from iscope.model import Report
from iscope.render.blocks import head
from iscope.render.blocks.against import against
from iscope.render.blocks.breakdowns import breakdown_tables
from iscope.render.blocks.comparison import looked_at, parts_by_lag
from iscope.render.blocks.coverage import coverage, provenance
from iscope.render.blocks.definitions import DEFINITIONS
from iscope.render.blocks.findings import findings
from iscope.render.blocks.frameworks import framework_tables
from iscope.render.blocks.mismatch import mismatch_tables
from iscope.render.blocks.recipes import recipe_tables
from iscope.render.blocks.strips import strips
from iscope.render.blocks.worst import worst_tables
from iscope.render.html.charts import FIRST, LATER, charts
from iscope.render.html.page import render_page
from iscope.render.strings import prose

__all__ = ["render"]

_CONTENTS = (
    ("against", "Against the other dump"),
    ("recipes", "Recipes"),
    ("pictures", "Distributions"),
    ("findings", "Findings"),
    ("mismatch", "Mismatch"),
    ("worst", "Worst rollouts"),
    ("breakdowns", "Breakdowns"),
    ("frameworks", "Frameworks' metrics"),
    ("coverage", "Coverage"),
    ("definitions", "Definitions"),
)


def render(report: Report, *, width: int = 100, verbose: bool = False, color: bool = False) -> str:  # noqa: ARG001
    """Return the report as an HTML page; the other arguments change nothing: it always holds everything.

    The same report gives the same bytes: the page has no time stamp, and nothing in it is random.
    """
    context = _context(report)
    filled = {"pictures": context["later"], **context}
    contents = [(place, name) for place, name in _CONTENTS if filled[place]]
    return render_page(context | {"contents": contents})


def _context(report: Report) -> dict[str, Any]:
    worst = worst_tables(report)
    return {
        "title": head.title(report),
        "facts": head.facts(report),
        "severity": head.severity(report),
        "verdict": head.verdict(report),
        "advice": head.advice(report),
        "against": against(report),
        "actions": head.actions(report),
        "tiles": head.tiles(report),
        "first": charts(report, FIRST),
        "recipes": recipe_tables(report),
        "later": charts(report, LATER),
        "findings": findings(report),
        "mismatch": mismatch_tables(report),
        "worst": worst,
        "strips": strips(report),
        "looked_at": looked_at(report),
        "breakdowns": [*breakdown_tables(report), *([parts] if (parts := parts_by_lag(report)) else [])],
        "frameworks": framework_tables(report),
        "coverage": coverage(report.coverage),
        "assumptions": [prose(text) for text in report.assumptions],
        "provenance": provenance(report),
        "definitions": DEFINITIONS,
    }
