"""The report in a notebook: a fragment without scripts and without plotly.js, so that a notebook stays small."""

from __future__ import annotations

from iscope.model import Report
from iscope.render.blocks import head
from iscope.render.blocks.definitions import DEFINITIONS
from iscope.render.blocks.findings import findings
from iscope.render.blocks.recipes import recipe_tables
from iscope.render.html.page import LONE_SURROGATE, environment


def render(report: Report) -> str:
    """Return the verdict, the headline figures, the recipe table and the findings as an HTML fragment."""
    text = (
        environment()
        .get_template("notebook.html")
        .render(
            title=head.title(report),
            facts=head.facts(report),
            severity=head.severity(report),
            verdict=head.verdict(report),
            advice=head.advice(report),
            tiles=head.tiles(report),
            recipes=recipe_tables(report)[:1],
            findings=findings(report),
            definitions=DEFINITIONS,
        )
    )
    return LONE_SURROGATE.sub("\ufffd", text)
