"""The report for a terminal: the verdict first, then why, at any width, numbers always whole."""

from __future__ import annotations

import json

from rich.text import Text

from iscope.model import Report
from iscope.render.strings import prose
from iscope.render.terminal import head
from iscope.render.terminal.breakdowns import breakdowns
from iscope.render.terminal.by_p import by_p
from iscope.render.terminal.findings import findings
from iscope.render.terminal.framework import framework
from iscope.render.terminal.head import verdict_line
from iscope.render.terminal.lag import lag
from iscope.render.terminal.mismatch import mismatch
from iscope.render.terminal.page import to_str, wrap
from iscope.render.terminal.recipes import recipes

__all__ = ["render", "verdict_line"]

_NARROWEST = 30


def render(report: Report, *, width: int = 100, verbose: bool = False, color: bool = False) -> str:
    """Return the report as text; no line is longer than ``width`` cells (or 30, if it is less).

    Args:
        report: what to show.
        width: columns of the terminal.
        verbose: every figure, row and example instead of the headline ones.
        color: with ANSI colours; they only repeat what words say.
    """
    width = max(width, _NARROWEST)
    blocks = [
        head.header(report, width),
        head.verdict(report, width),
        head.assumptions(report, width),
        head.coverage(report, width, verbose=verbose),
        mismatch(report, width, verbose=verbose),
        by_p(report, width),
        lag(report, width, verbose=verbose),
        recipes(report, width, verbose=verbose),
        framework(report, width, verbose=verbose),
        breakdowns(report, width, verbose=verbose),
        findings(report, width, verbose=verbose),
        _provenance(report, width) if verbose else [],
    ]
    return to_str([line for block in blocks for line in block], color=color)


def _provenance(report: Report, width: int) -> list[Text]:
    entries = {name: json.dumps(value, ensure_ascii=False, default=str) for name, value in report.provenance.items()}
    return [
        line for name, text in entries.items() for line in wrap(f"PROVENANCE {prose(name)} {prose(text)}", width, 2)
    ]
