"""Reports for gates, made of a few figures."""

from __future__ import annotations

from iscope.model import Figure, Finding, Report, Verdict
from tests.render.reports import coverage


def report(k3=None, steps=(), findings=(), *, sampling=None, scored=36511, minus_log_q=2.0, **mismatch):
    """A report with this k3 and one row of a breakdown for each step: a figure, or the value of one."""
    figures = {"k3": k3 or Figure(0.001, low=0.0009, high=0.0011), "minus_log_q": Figure(minus_log_q), **mismatch}
    rows = [
        {"value": place, "k3": found if isinstance(found, Figure) else Figure(found)}
        for place, found in (steps.items() if isinstance(steps, dict) else enumerate(steps))
    ]
    return Report(
        verdict=Verdict("SMALL MISMATCH", "k3 is small."),
        coverage=coverage(tokens_scored=scored),
        assumptions=[],
        mismatch=figures,
        recipes=[],
        breakdowns={"step": rows} if rows else {},
        findings=[Finding(code, severity, f"title of {code}", "message") for code, severity in findings],
        provenance={"iscope": "0", "plan": {"precision": "float32", "unscored": "exclude", "batch": "all"}},
        parts={"sampling": sampling} if sampling else {},
    )
