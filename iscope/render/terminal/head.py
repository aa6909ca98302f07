"""The top of the page: what was read, the verdict, what had to be assumed, what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from rich.text import Text

from iscope.model import Coverage, Finding, Report, Verdict
from iscope.render.numbers import count, counted
from iscope.render.strings import clean, elide, prose
from iscope.render.terminal.page import wrap

_NAMED_FILES = 3
_MOST_ACTIONS = 4
# Notes of coverage whose names in the JSON report are no words; what follows the name is counted.
_NOTES = {
    "pairing_equal": "rollouts whose token ids are equal on both sides",
    "pairing_prefix": "rollouts whose token ids on one side are a prefix of the other's",
    "pairing_suffix": "rollouts whose token ids on one side are a suffix of the other's",
    "pairing_ids_differ": "rollouts whose token ids differ between the sides",
    "pairing_ids_unknown": "rollouts without token ids to compare",
    "not_selected": "rollouts left out by --where",
}

_USUAL = ("pairing_equal", "pairing_ids_unknown")  # what the assumptions say already


def verdict_line(report: Report) -> str:
    """Return the verdict as one line, its word first."""
    return f"VERDICT {clean(report.verdict.word)}: {prose(report.verdict.message)}"


def header(report: Report, width: int) -> list[Text]:
    """Return the files, the rollouts, the tokens and the steps in two lines."""
    coverage = report.coverage
    facts = [
        counted(coverage.rollouts_analyzed, "rollout"),
        f"{counted(coverage.tokens_scored, 'scored token')}, {count(sum(coverage.tokens_unscored.values()))} unscored",
        *_steps(report),
    ]
    return wrap(f"iscope · {_files(report)}", width, 2) + wrap(" · ".join(facts), width, 2)


def verdict(report: Report, width: int) -> list[Text]:
    """Return the verdict, wrapped, and what to try, most pressing first."""
    return judged(report.verdict, report.findings, width)


def judged(verdict: Verdict, findings: Sequence[Finding], width: int) -> list[Text]:
    """Return a verdict, wrapped, and what to try: its own action, then those of the other errors, or else warnings."""
    start = f"VERDICT {clean(verdict.word)}: "
    line = Text(start + prose(verdict.message))
    line.stylize("bold", 0, len(start) - 1)
    errors, warnings = ([one.action for one in findings if one.severity == word] for word in ("error", "warning"))
    tries = [text for text in dict.fromkeys([verdict.action, *(errors or warnings)]) if text][:_MOST_ACTIONS]
    heads = [f"TRY {place}" if len(tries) > 1 else "TRY" for place in range(1, len(tries) + 1)]
    return wrap(line, width, 2) + [
        part for head, text in zip(heads, tries, strict=True) for part in wrap(f"{head} {prose(text)}", width, 2)
    ]


def assumptions(said: Sequence[str], width: int, *, verbose: bool) -> list[Text]:
    """Return what had to be assumed, one paragraph each; simple sentences share one unless ``verbose``."""
    sentences = [prose(text) for text in said]
    simple = [] if verbose else [text for text in sentences if ";" not in text]
    paragraphs = [text for text in sentences if text not in simple]
    if simple:
        paragraphs.append("; ".join([*(text.removesuffix(".") for text in simple[:-1]), simple[-1]]))
    return [line for text in paragraphs for line in wrap(f"ASSUMED {text}", width, 2)]


def coverage(report: Report, width: int, *, verbose: bool) -> list[Text]:
    """Return the counts of what was read, where anything was left out, is worth noting or was asked for."""
    found = report.coverage
    incomplete = found.rollouts_empty or any(found.rollouts_excluded.values()) or any(found.tokens_unscored.values())
    sentences = _coverage_sentences(found) if incomplete or verbose else []
    notes = {_NOTES.get(name, name): n for name, n in found.notes.items() if n and (verbose or name not in _USUAL)}
    if notes:
        sentences.append(f"noted: {_counts(notes)}")
    return [line for text in sentences for line in wrap(f"COVERAGE {text}", width, 2)]


def _coverage_sentences(found: Coverage) -> list[str]:
    excluded, unscored = sum(found.rollouts_excluded.values()), sum(found.tokens_unscored.values())
    rollouts = (
        f"{count(found.rollouts_read)} rollouts read: {count(found.rollouts_analyzed)} analyzed, "
        f"{count(found.rollouts_empty)} without a scored token, {count(excluded)} excluded"
    )
    tokens = (
        f"{count(found.tokens_read)} tokens read: {count(found.tokens_loss)} loss tokens, "
        f"{count(found.tokens_scored)} scored, {count(unscored)} unscored"
    )
    sides = [f"{clean(side)} {_counts(kinds)}" for side, kinds in found.tokens_unscored_by_side.items() if kinds]
    return [
        rollouts + (f" ({_counts(found.rollouts_excluded)})" if excluded else ""),
        tokens
        + (f" ({_counts(found.tokens_unscored)}; by side: {'; '.join(sides) or 'not known'})" if unscored else ""),
    ]


def _counts(by_reason: Mapping[str, int]) -> str:
    return ", ".join(f"{prose(reason)} {count(n)}" for reason, n in by_reason.items() if n)


def _files(report: Report) -> str:
    files = report.provenance.get("files")
    names = [elide(clean(PurePath(_path(file)).name), 60) for file in files] if isinstance(files, list) else []
    if not names:
        return counted(report.coverage.files, "file")
    more = f" and {counted(len(names) - _NAMED_FILES, 'more file')}" if len(names) > _NAMED_FILES else ""
    return " + ".join(names[:_NAMED_FILES]) + more


def _path(file: Any) -> str:
    return str(file.get("path", "?")) if isinstance(file, dict) else str(file)


def _steps(report: Report) -> list[str]:
    values = [elide(clean(row.get("value")), 20) for row in report.breakdowns.get("step", [])]
    if not values:
        return []
    return [f"step {values[0]}" if len(values) == 1 else f"steps {values[0]}-{values[-1]}"]
