"""What a comparison looked at, and how the mismatch parts at each lag."""

from __future__ import annotations

from iscope.model import Node, Report
from iscope.render.blocks.cells import Head, Row, Table, cell, table
from iscope.render.nodes import at, entries
from iscope.render.numbers import count, counted, number
from iscope.render.strings import clean, elide, prose

_PARTS = {
    "engine": "engine: trainer over inference",
    "lag": "lag: current over trainer",
    "total": "total: current over inference",
}


def looked_at(report: Report) -> list[str]:
    """Return how many settings were tried, met and skipped, and by what they are ordered; of a comparison alone."""
    found = at(report.parts, "settings")
    if not isinstance(found, dict):
        return []
    tried, swept, met = (found.get(key) for key in ("tried", "swept", "met"))
    said = []
    if isinstance(tried, int) and isinstance(swept, int):
        said.append(f"{counted(tried, 'setting')} tried, {count(swept)} of them from sweeps")
    if isinstance(met, int) and found.get("require"):
        said.append(f"{count(met)} meet {' and '.join(prose(text) for text in _listed(found.get('require')))}")
    skipped = found.get("skipped")
    said += [
        f"skipped {count(n)}: {prose(why)}"
        for why, n in (skipped.items() if isinstance(skipped, dict) else ())
        if isinstance(n, int) and n
    ]
    if found.get("rank_by"):
        said.append(f"ordered by {prose(found['rank_by'])}")
    return said


def parts_by_lag(report: Report) -> Table | None:
    """Return k3 of the engine, of the lag and of both at each lag, None where the report has no two lags."""
    rows = [row for row in entries(at(report.parts, "staleness")) if isinstance(row.get("k3_parts"), dict)]
    if not rows:
        return None
    made = [
        Row(elide(clean(row.get("value")), 40), [cell(at(row, "k3_parts", part), number) for part in _PARTS])
        for row in rows
    ]
    heads = [Head(f"{text}, k3, nats/token", define="k3") for text in _PARTS.values()]
    return table("By lag: what of the mismatch is the engine's and what the lag's.", "lag", heads, made)


def _listed(node: Node) -> list[Node]:
    return node if isinstance(node, list) else []
