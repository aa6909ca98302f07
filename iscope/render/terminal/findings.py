"""Findings: what the dump shows, one paragraph each."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from iscope.model import Report
from iscope.render.numbers import counted
from iscope.render.strings import clean, prose
from iscope.render.terminal.page import wrap

_STYLES = {"error": "bold red", "warning": "bold yellow"}


def findings(report: Report, width: int, *, verbose: bool) -> list[Text]:
    """Return the findings in the order of the report, with their examples if ``verbose``."""
    return [line for found in report.findings for line in _finding(found, width, verbose=verbose)]


def _finding(found: dict[str, Any], width: int, *, verbose: bool) -> list[Text]:
    severity = clean(found.get("severity", "information"))
    word = severity.upper()
    counts = [
        counted(found[f"{noun}s"], noun) for noun in ("token", "rollout") if isinstance(found.get(f"{noun}s"), int)
    ]
    where = f" ({', '.join(counts)})" if counts else ""
    title = f"{word} {clean(found.get('code', '?'))} {prose(found.get('title', ''))}{where}: "
    line = Text(title + prose(found.get("message", "")))
    line.stylize(_STYLES.get(severity, "bold"), 0, len(word))
    examples = found.get("examples") or []
    shown = [part for example in examples for part in wrap(f"    {_example(example)}", width, 6)] if verbose else []
    return wrap(line, width, 2) + shown


def _example(example: Any) -> str:
    if isinstance(example, dict):
        return ", ".join(f"{clean(name)} {prose(value)}" for name, value in example.items())
    return prose(example)
