"""The report as Markdown, for a pull request, an issue or a job's summary: verdict, findings, recipes, breakdowns."""

from __future__ import annotations

from collections.abc import Iterator

from iscope.model import Report
from iscope.render.blocks import head
from iscope.render.blocks.against import against
from iscope.render.blocks.breakdowns import breakdown_tables
from iscope.render.blocks.comparison import looked_at
from iscope.render.blocks.coverage import coverage
from iscope.render.blocks.findings import Shown, findings
from iscope.render.blocks.frameworks import framework_tables
from iscope.render.blocks.mismatch import mismatch_tables
from iscope.render.blocks.recipes import recipe_tables
from iscope.render.markdown.text import block, code, items, table, text
from iscope.render.strings import prose

__all__ = ["render"]

_ROWS = 40
_MINOR = "information"


def render(report: Report, *, width: int = 100, verbose: bool = False, color: bool = False) -> str:  # noqa: ARG001
    """Return the report as GitHub-flavoured Markdown; the width and the colour change nothing.

    Args:
        report: what to show.
        width: not used: lines are as long as they are.
        verbose: every row, and the frameworks' own metrics.
        color: not used.
    """
    return "\n\n".join(_sections(report, verbose=verbose)) + "\n"


def _sections(report: Report, *, verbose: bool) -> Iterator[str]:
    longest = max((len(rows) for rows in report.breakdowns.values()), default=0)
    most = max(len(report.recipes), longest) if verbose else _ROWS
    yield from _top(report)
    yield from _against(report, most)
    recipes = recipe_tables(report)
    if recipes:
        yield "## Recipes"
        looked = looked_at(report)
        if looked:
            yield text(f"{'; '.join(looked)}.")
        yield table(recipes[0], most)
    yield from _findings(report)
    yield "## Mismatch"
    yield from (table(one, most) for one in mismatch_tables(report))
    breakdowns = breakdown_tables(report)
    if breakdowns:
        yield "## Breakdowns"
        yield from (table(one, most) for one in breakdowns)
    frameworks = framework_tables(report) if verbose else []
    if frameworks:
        yield "## Frameworks' own metrics"
        yield from (table(one, len(one.rows)) for one in frameworks)
    said = [f"{text(name)}: {text(words)}" for name, words in coverage(report.coverage)]
    assumed = [f"assumed: {text(prose(words))}" for words in report.assumptions]
    yield f"## Coverage and assumptions\n\n{items([*said, *assumed])}"


def _top(report: Report) -> Iterator[str]:
    yield f"# iscope: {text(head.title(report))}"
    yield text(head.facts(report))
    verdict = head.verdict(report)
    yield f"**VERDICT {text(verdict.word)}**: {text(verdict.message)}"
    if verdict.action:
        yield f"**Try:** {text(verdict.action)}."
    yield from _advice(report)
    actions = head.actions(report)
    if actions:
        numbered = enumerate(actions, 1)
        yield "\n".join(f"{place}. **{text(about)}**: {text(action)}" for place, (about, action) in numbered)
    tiles = head.tiles(report)
    if tiles:
        yield items(f"{text(tile.name)}: **{text(tile.text)}**" for tile in tiles)


def _advice(report: Report) -> Iterator[str]:
    found = head.advice(report)
    if found is None:
        return
    yield f"**{text(found.title)}**"
    if found.config:
        yield block(found.config)
    said = [*found.sentences, *found.notes]
    if said:
        yield items(map(text, said))


def _against(report: Report, most: int) -> Iterator[str]:
    found = against(report)
    if found is None:
        return
    yield "## Against the other dump"
    yield text(f"Rollouts of both: {found.pairing}. The other dump's verdict: {found.verdict}")
    if found.changed:
        yield items(map(text, found.changed))
    yield from (table(one, most) for one in found.tables[:1])


def _findings(report: Report) -> Iterator[str]:
    found = findings(report)
    serious = [one for one in found if one.severity != _MINOR]
    minor = [one for one in found if one.severity == _MINOR]
    if found:
        yield "## Findings"
    if serious:
        yield items(_finding(one) for one in serious)
    if minor:
        yield "For information: " + "; ".join(f"{code(one.code)} {text(one.title)}" for one in minor) + "."


def _finding(found: Shown) -> str:
    counts = f" ({text(found.counts)})" if found.counts else ""
    action = f" **Try:** {text(found.action)}." if found.action else ""
    return f"**{found.severity.upper()}** {code(found.code)} {text(found.title)}{counts}: {text(found.message)}{action}"
