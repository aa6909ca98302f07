"""The verdict: the first line of a report, made from the findings and the mismatch KL."""

from __future__ import annotations

from collections.abc import Sequence

from iscope.analysis.levels import REFERENCE, Levels
from iscope.model import Coverage, Figure, Figures, Finding, Verdict

# Findings about a recipe or its bounds say nothing about the health of the dump.
ABOUT_RECIPES = ("IS019", "IS020", "IS021")
_NAMED = 3


def verdict(
    mismatch: Figures, coverage: Coverage, findings: Sequence[Finding] = (), levels: Levels | None = None
) -> Verdict:
    """Say what is wrong and what to try, or where the mismatch stands among published levels.

    Args:
        mismatch: its figures.
        coverage: what was read.
        findings: what was found, errors first.
        levels: what is healthy; None is a dense model in bf16.

    Returns:
        One of the words NO DATA, DATA FAULT (some finding is an error), NOT HEALTHY (some is a warning about the
        dump), SMALL MISMATCH, ELEVATED MISMATCH, LARGE MISMATCH.
    """
    levels = levels or Levels()
    k3 = mismatch["k3"]
    if not isinstance(k3, Figure) or k3.value is None:
        return Verdict("NO DATA", f"none of {coverage.tokens_loss:,} loss tokens could be scored.")
    measured = f"k3 is {k3.value:.2g} nats per token over {coverage.tokens_scored:,} scored tokens"
    of_dump = [finding for finding in findings if finding.code not in ABOUT_RECIPES]
    for word, severity in (("DATA FAULT", "error"), ("NOT HEALTHY", "warning")):
        chosen = [finding for finding in of_dump if finding.severity == severity]
        if chosen:
            return Verdict(word, f"{_titles(chosen)}; {measured}. Try: {chosen[0].action}.")
    word, place = _place(float(k3.value), levels)
    return Verdict(word, f"{measured}, {place}.{_about_recipes(findings)}")


def _titles(findings: Sequence[Finding]) -> str:
    more = f"; {len(findings) - _NAMED} more" if len(findings) > _NAMED else ""
    return "; ".join(f"{_small(finding.title)} ({finding.code})" for finding in findings[:_NAMED]) + more


def _place(k3: float, levels: Levels) -> tuple[str, str]:
    if k3 < levels.k3:
        return "SMALL MISMATCH", f"at the level of healthy runs ({_healthy(levels)})"
    if k3 < levels.limit:
        others = [level.stack for level in REFERENCE if level.k3 > levels.k3 and k3 < level.k3]
        beside = f", at the level of healthy {' and '.join(others)}" if others else ""
        return "ELEVATED MISMATCH", f"above healthy runs ({_healthy(levels)}){beside}"
    return "LARGE MISMATCH", f"above {levels.limit:g}, where prime-rl refuses a new model"


def _healthy(levels: Levels) -> str:
    return f"{levels.stack}: up to {levels.k3:g}" if levels.stack else f"yours: up to {levels.k3:g}"


def _about_recipes(findings: Sequence[Finding]) -> str:
    """What to try about a recipe that the user named."""
    named = [finding for finding in findings if finding.code in ABOUT_RECIPES and finding.severity != "information"]
    return f" {_capital(_titles(named))}. Try: {named[0].action}." if named else ""


def _small(title: str) -> str:
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
