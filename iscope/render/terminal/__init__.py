"""The report for a terminal: the verdict first, then why, at any width, numbers always whole."""

from __future__ import annotations

import json

from rich.text import Text

from iscope.model import Report
from iscope.render.strings import prose
from iscope.render.terminal import head
from iscope.render.terminal.breakdowns import breakdowns
from iscope.render.terminal.by_p import by_p
from iscope.render.terminal.comparison import comparison, onset
from iscope.render.terminal.findings import findings
from iscope.render.terminal.framework import framework
from iscope.render.terminal.head import verdict_line
from iscope.render.terminal.keep import keep
from iscope.render.terminal.lag import lag
from iscope.render.terminal.mismatch import mismatch
from iscope.render.terminal.page import to_str, wrap
from iscope.render.terminal.recipes import recipes
from iscope.render.terminal.tail import tail

__all__ = ["render", "verdict_line"]

_NARROWEST = 30
_MORE = "MORE --verbose: k2, quantiles, masked and truncated apart, weight ESS, keep(T), logged metrics"


def render(report: Report, *, width: int = 100, verbose: bool = False, color: bool = False) -> str:
    """Return the report as text; no line is longer than ``width`` cells (or 30, if it is less).

    Args:
        report: what to show.
        width: columns of the terminal.
        verbose: every figure, row and example instead of the headline ones.
        color: with ANSI colours; they only repeat what words say.
    """
    width = max(width, _NARROWEST)
    if "settings" in report.parts or "against" in report.parts:
        return to_str(comparison(report, width, verbose=verbose), color=color)
    if not report.coverage.tokens_scored and not verbose:
        return to_str(_unscored(report, width), color=color)
    blocks = [
        head.header(report, width),
        head.verdict(report, width),
        head.assumptions(report.assumptions, width, verbose=verbose),
        head.coverage(report, width, verbose=verbose),
        findings(report, width, verbose=verbose),
        onset(report, width),
        mismatch(report, width, verbose=verbose),
        tail(report, width, verbose=verbose),
        by_p(report, width, verbose=verbose),
        lag(report, width, verbose=verbose),
        recipes(report, width, verbose=verbose),
        keep(report, width, verbose=verbose),
        framework(report, width, verbose=verbose),
        breakdowns(report, width, verbose=verbose),
        _provenance(report, width) if verbose else wrap(_MORE, width, 2),
    ]
    return to_str([line for block in blocks for line in block], color=color)


def _unscored(report: Report, width: int) -> list[Text]:
    """The page where no token could be scored: what was read, and why there are no figures."""
    blocks = (
        head.header(report, width),
        head.verdict(report, width),
        head.assumptions(report.assumptions, width, verbose=False),
        head.coverage(report, width, verbose=True),
        findings(report, width, verbose=False),
    )
    return [line for block in blocks for line in block]


def _provenance(report: Report, width: int) -> list[Text]:
    entries = {name: json.dumps(value, ensure_ascii=False, default=str) for name, value in report.provenance.items()}
    return [
        line for name, text in entries.items() for line in wrap(f"PROVENANCE {prose(name)} {prose(text)}", width, 2)
    ]
