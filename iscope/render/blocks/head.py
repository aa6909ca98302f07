"""The top of the page: the verdict, the figures it rests on, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from iscope.model import Node, Report
from iscope.render.blocks.own import advised_spec, leading, own_specs
from iscope.render.nodes import at, figure
from iscope.render.numbers import count, counted, number
from iscope.render.strings import clean, elide, prose
from iscope.render.terminal.labels import label

_NAMED_FILES = 3
_MOST_ACTIONS = 4
_TILES = 2
_LINE_LIMIT = 400
_WORD_LIMIT = 60
_SEVERITIES = {"NO DATA": "error", "DATA FAULT": "error", "LARGE MISMATCH": "error", "SMALL MISMATCH": "healthy"}


@dataclass(frozen=True)
class Said:
    """The verdict as a page shows it: its word, the sentence that backs it, and what to try."""

    word: str
    message: str
    action: str


def verdict(report: Report) -> Said:
    """Return the verdict."""
    found = report.verdict
    return Said(elide(clean(found.word), _WORD_LIMIT), prose(found.message), prose(found.action))


@dataclass(frozen=True)
class Tile:
    """A headline figure: the number, what it is, and its term of the glossary."""

    text: str
    name: str
    define: str = ""


def severity(report: Report) -> str:
    """Return how the verdict is marked: ``error``, ``warning`` or ``healthy``; its word says the same."""
    return _SEVERITIES.get(report.verdict.word, "warning")


def title(report: Report) -> str:
    """Return the names of the dump's files."""
    files = report.provenance.get("files")
    names = [elide(clean(PurePath(_path(file)).name), 60) for file in files] if isinstance(files, list) else []
    if not names:
        return counted(report.coverage.files, "file")
    more = f" and {counted(len(names) - _NAMED_FILES, 'more file')}" if len(names) > _NAMED_FILES else ""
    return " + ".join(names[:_NAMED_FILES]) + more


def facts(report: Report) -> str:
    """Return rollouts, tokens, steps and lag in one line."""
    coverage = report.coverage
    unscored = sum(coverage.tokens_unscored.values())
    steps = [elide(clean(row.get("value")), 20) for row in report.breakdowns.get("step", [])]
    lags = [elide(clean(row.get("value")), 20) for row in report.breakdowns.get("lag", [])]
    parts = [
        counted(coverage.rollouts_analyzed, "rollout"),
        f"{counted(coverage.tokens_scored, 'scored token')}, {count(unscored)} unscored",
        *([f"steps {steps[0]} to {steps[-1]}"] if len(steps) > 1 else []),
        *([f"lag {', '.join(lags[:8])}"] if len(lags) > 1 else []),
    ]
    return " · ".join(parts)


def tiles(report: Report) -> list[Tile]:
    """Return the headline figures: the mismatch, and what the user's own recipes leave."""
    found = [
        _tile(at(report.mismatch, "k3"), "k3, nats per scored token", "k3"),
        _tile(at(report.mismatch, "gap"), "gap: median |d| / (1 - q), nats", "gap"),
        _tile(at(report.mismatch, "variance_ratio"), "variance ratio, 1 on fresh rollouts", "variance_ratio"),
    ]
    marked = own_specs(report) | {advised_spec(report)}
    chosen = [recipe for recipe in leading(report, _TILES) if recipe.spec in marked] or report.recipes[:1]
    for recipe in chosen:
        name = elide(label(recipe), 44)
        node = at(recipe.figures, "effective_batch_size")
        base = figure(at(node, "base")) if isinstance(node, dict) else None
        of = f" of {number(base.value)}" if base is not None and base.value is not None else ""
        found.append(_tile(node, f"effective rollouts under {name}", "effective_batch_size", of))
        if recipe.name != "none":
            found.append(
                _tile(at(recipe.figures, "gradient_left", "all"), f"gradient left under {name}", "gradient_left")
            )
    return [tile for tile in found if tile.text]


def _tile(node: Node, name: str, define: str, after: str = "") -> Tile:
    found = figure(node)
    if found is None or found.value is None:
        return Tile("", name)
    ends = "" if found.low is None or found.high is None else f" [{number(found.low)}, {number(found.high)}]"
    return Tile(f"{number(found.value)}{after}", name + (f"; 95%{ends}" if ends else ""), define)


def actions(report: Report) -> list[tuple[str, str]]:
    """Return what to try besides what the verdict says, worst finding first: the finding's title and the action."""
    said = {report.verdict.action, ""}
    serious = [one for one in report.findings if one.severity in ("error", "warning") and one.action not in said]
    return [(prose(finding.title), prose(finding.action)) for finding in serious[:_MOST_ACTIONS]]


@dataclass(frozen=True)
class Advice:
    """The advice of a comparison: its title, its reasons, lines of configuration, and notes on them."""

    title: str
    sentences: tuple[str, ...]
    config: str
    notes: tuple[str, ...]


def advice(report: Report) -> Advice | None:
    """Return the advice of a comparison."""
    found = at(report.parts, "advice")
    if not isinstance(found, dict):
        return None
    lines = [elide(clean(line), _LINE_LIMIT) for line in _strings(found.get("config"))]
    sentences, notes = (tuple(prose(text) for text in _strings(found.get(key))) for key in ("sentences", "notes"))
    return Advice(prose(found.get("title")), sentences, "\n".join(lines), notes)


def _strings(node: Node) -> list[str]:
    return [str(text) for text in node] if isinstance(node, list) else []


def _path(file: Any) -> str:
    return str(file.get("path", "?")) if isinstance(file, dict) else str(file)
