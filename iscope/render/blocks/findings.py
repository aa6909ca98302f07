"""Findings as plain texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iscope.model import Finding, Node, Report
from iscope.render.blocks.cells import cell
from iscope.render.nodes import scalars
from iscope.render.numbers import counted, number
from iscope.render.strings import clean, elide, prose

_VALUE_LIMIT = 300
_SEVERITIES = ("error", "warning")


@dataclass(frozen=True)
class Shown:
    """A finding as a page shows it: every text is fit to print, none is escaped."""

    code: str
    severity: str
    title: str
    counts: str
    message: str
    action: str
    evidence: list[tuple[str, str]]
    examples: list[str]


def findings(report: Report) -> list[Shown]:
    """Return the findings in the order of the report."""
    return [_finding(found) for found in report.findings]


def _finding(found: Finding) -> Shown:
    numbers = (("token", found.tokens), ("rollout", found.rollouts))
    return Shown(
        clean(found.code),
        found.severity if found.severity in _SEVERITIES else "information",
        prose(found.title),
        ", ".join(counted(n, noun) for noun, n in numbers if isinstance(n, int)),
        prose(found.message),
        prose(found.action),
        [(elide(clean(name.replace("_", " ")), 80), _text(node)) for name, node in scalars(found.evidence)],
        [_example(one) for one in found.examples],
    )


def _text(node: Node) -> str:
    return elide(clean(node), _VALUE_LIMIT) if isinstance(node, str | bool) or node is None else cell(node, number).text


def _example(example: Any) -> str:
    if isinstance(example, dict):
        return ", ".join(f"{clean(name)} {elide(clean(found), 120)}" for name, found in example.items())
    return prose(example)
