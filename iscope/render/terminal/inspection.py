"""The page of ``iscope inspect``: files, columns, shape, findings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from iscope.model import Inspection
from iscope.render.json import document
from iscope.render.numbers import count, counted
from iscope.render.strings import clean, prose
from iscope.render.terminal.findings import paragraphs
from iscope.render.terminal.head import assumptions, judged
from iscope.render.terminal.page import to_str, wrap

_NARROWEST = 30
_NAMED_FILES = 5
_NOUNS = {
    "length": "loss tokens per rollout",
    "group_size": "rollouts per group",
    "steps": "step",
    "groups": "group",
    "policy_version": "policy version",
    "trainer_version": "trainer version",
}


def as_json(found: Inspection) -> str:
    """Return an inspection as JSON, schema ``iscope.inspection``."""
    return document(found.to_dict())


def render(
    found: Inspection, *, width: int = 100, verbose: bool = False, quiet: bool = False, color: bool = False
) -> str:
    """Return an inspection as text.

    Args:
        found: what to show.
        width: columns of the terminal.
        verbose: every file, and the findings in full with their examples.
        quiet: the verdict only.
        color: with ANSI colours; they only repeat what words say.
    """
    width = max(width, _NARROWEST)
    if quiet:
        return to_str(judged(found.verdict, [], width), color=color)
    lines = [part for text in _head(found, verbose=verbose) for part in wrap(text, width, 2)]
    lines += judged(found.verdict, found.findings, width)
    lines += assumptions(found.assumptions, width, verbose=verbose)
    return to_str([*lines, *paragraphs(found.findings, width, verbose=verbose)], color=color)


def _head(found: Inspection, *, verbose: bool) -> Iterator[str]:
    shown = found.files if verbose else found.files[:_NAMED_FILES]
    for file in shown:
        side = f", {clean(file['side'])} side" if file["side"] else ""
        yield f"FILE {clean(file['path'])}: {counted(file['rows'], 'row')}, {count(file['bytes'])} bytes{side}"
    if len(found.files) > len(shown):
        yield f"FILE and {counted(len(found.files) - len(shown), 'more file')}"
    yield f"LAYOUT {prose(found.layout)}"
    yield f"COLUMNS {', '.join(_column(column) for column in found.columns)}"
    for side, names in found.ignored.items():
        where = f" ({clean(side)} side)" if side else ""
        yield f"IGNORED{where} {', '.join(clean(name) for name in names)}"
    yield from _counts(found)
    for name, values in found.shape.items():
        if values is not None:
            yield f"{name.upper()} {_shape(name, values)}"


def _column(column: dict[str, str]) -> str:
    renamed = "" if column["source"] == column["name"] else f" from {clean(column['source'])}"
    side = f" {clean(column['side'])}" if column["side"] else ""
    return f"{clean(column['name'])}{renamed} [{clean(column['type'])}{side}]"


def _counts(found: Inspection) -> Iterator[str]:
    coverage = found.coverage
    excluded = sum(coverage.rollouts_excluded.values())
    yield (
        f"ROLLOUTS {count(coverage.rollouts_read)} read, {count(coverage.rollouts_analyzed)} with a scored token, "
        f"{count(coverage.rollouts_empty)} without, {count(excluded)} left out"
    )
    yield (
        f"TOKENS {count(coverage.tokens_read)} read, {count(coverage.tokens_loss)} in the loss mask, "
        f"{count(coverage.tokens_scored)} scored, {count(sum(coverage.tokens_unscored.values()))} unscored"
    )


def _shape(name: str, values: dict[str, Any]) -> str:
    noun = _NOUNS.get(name, name)
    if "median" in values:
        return f"{count(values['min'])} / {count(values['median'])} / {count(values['max'])} {noun} (min, median, max)"
    last = f" to {clean(values['last'])}" if values["count"] > 1 else ""
    return f"{counted(values['count'], noun)}, {clean(values['first'])}{last}"
