"""What differs from another dump: the sentences, and every figure on both sides with their difference."""

from __future__ import annotations

from dataclasses import dataclass

from iscope.model import Figures, Node, Report
from iscope.render.blocks.cells import Head, Row, Table, cell, table
from iscope.render.nodes import at, entries
from iscope.render.numbers import counted, number
from iscope.render.strings import clean, elide, prose

_RECIPES = "recipes."


@dataclass(frozen=True)
class Against:
    """The other dump as a page shows it.

    Attributes:
        pairing: how the rollouts of both were matched.
        verdict: the verdict on the other dump.
        changed: what changed, one sentence each.
        tables: the figures of the mismatch and the batch, and those of recipes.
    """

    pairing: str
    verdict: str
    changed: list[str]
    tables: list[Table]


def against(report: Report) -> Against | None:
    """Return the comparison with another dump, None where the report has none."""
    found = at(report.parts, "against")
    if not isinstance(found, dict):
        return None
    rows = entries(found.get("figures"))
    own = [row for row in rows if not str(row.get("path")).startswith(_RECIPES)]
    of_recipes = [row for row in rows if str(row.get("path")).startswith(_RECIPES)]
    listed = found.get("changed")
    tables = [_table("Figures of the mismatch and of the batch.", own), _table("Figures of the recipes.", of_recipes)]
    return Against(
        _pairing(at(found, "pairing")),
        f"{elide(clean(at(found, 'verdict', 'word')), 60)}: {prose(at(found, 'verdict', 'message'))}",
        [prose(text) for text in listed] if isinstance(listed, list) else [],
        [one for one in tables if one.rows],
    )


def _pairing(node: Node) -> str:
    if not isinstance(node, dict):
        return ""
    rollouts = node.get("rollouts")
    over = f", {counted(rollouts, 'rollout')}" if isinstance(rollouts, int) else ""
    return f"{elide(clean(node.get('kind')), 60)}{over}: {prose(node.get('why'))}"


def _table(caption: str, rows: list[Figures]) -> Table:
    heads = [Head("here"), Head("there"), Head("difference, here - there"), Head("interval", words=True)]
    made = [
        Row(
            elide(clean(row.get("path")).removeprefix("mismatch.").removeprefix(_RECIPES), 200),
            [
                *(cell(row.get(side), number) for side in ("here", "there", "difference")),
                cell(row.get("interval"), number),
            ],
        )
        for row in rows
    ]
    return table(f"{caption} Below a figure its 95% interval.", "figure", heads, made)
