"""The verdict: the first line of a report, made from the findings and the mismatch KL."""

from __future__ import annotations

from collections.abc import Sequence

from iscope.analysis.levels import REFERENCE, Levels
from iscope.model import Coverage, Figure, Figures, Finding, Verdict

# Findings about a recipe or its bounds say nothing about the health of the dump.
ABOUT_RECIPES = ("IS019", "IS020", "IS021")
_NAMED = 3
_LARGE = 100  # nats from which k3 is said in whole ones


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
        return _no_data(coverage, findings)
    size = f"{k3.value:.2g}" if k3.value < _LARGE else f"{k3.value:,.0f}"
    measured = f"k3 is {size} nats per token over {coverage.tokens_scored:,} scored tokens"
    of_dump = [finding for finding in findings if finding.code not in ABOUT_RECIPES]
    for word, severity in (("DATA FAULT", "error"), ("NOT HEALTHY", "warning")):
        chosen = [finding for finding in of_dump if finding.severity == severity]
        if chosen:
            return Verdict(word, f"{_titles(chosen)}; {measured}.", chosen[0].action)
    word, place = _place(float(k3.value), levels)
    about = [finding for finding in findings if finding.code in ABOUT_RECIPES and finding.severity != "information"]
    said = f" {_capital(_titles(about))}." if about else ""
    return Verdict(word, f"{measured}, {place}.{said}", about[0].action if about else "")


def _no_data(coverage: Coverage, findings: Sequence[Finding]) -> Verdict:
    if not coverage.rollouts_read:
        return Verdict("NO DATA", "no rollout was read.")
    if not coverage.tokens_loss:
        action = "look at loss_mask: it must be true at the tokens that train" if coverage.tokens_read else ""
        return Verdict("NO DATA", f"none of {coverage.tokens_read:,} tokens is in the loss mask.", action)
    action = findings[0].action if findings else ""
    return Verdict("NO DATA", f"none of {coverage.tokens_loss:,} loss tokens could be scored.", action)


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


def _small(title: str) -> str:
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
