"""Findings: what the dump shows, in a few lines each; what that means is for ``iscope explain``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from iscope.model import Finding, Report
from iscope.render.numbers import counted
from iscope.render.strings import clean, elide, prose
from iscope.render.terminal.page import wrap

_STYLES = {"error": "bold red", "warning": "bold yellow"}
_MINOR = "information"


def findings(report: Report, width: int, *, verbose: bool) -> list[Text]:
    """Return the findings in the order of the report; those for information only by title, unless ``verbose``."""
    return paragraphs(report.findings, width, verbose=verbose)


def paragraphs(found: Sequence[Finding], width: int, *, verbose: bool) -> list[Text]:
    """Return findings as paragraphs: what the dump shows or, if ``verbose``, all they say, with their examples."""
    whole = [finding for finding in found if verbose or finding.severity != _MINOR]
    lines = [line for finding in whole for line in _finding(finding, width, verbose=verbose)]
    titles = [f"{clean(one.code)} {prose(one.title)}{_recipe(one)}" for one in found if one not in whole]
    if titles:
        line = Text(f"INFORMATION {'; '.join(titles)}")
        line.stylize("bold", 0, len("INFORMATION"))
        lines += wrap(line, width, 2)
    if found and not verbose:
        lines += wrap("  iscope explain CODE: what it means, its causes, what it is no evidence of", width, 4)
    return lines


def _finding(found: Finding, width: int, *, verbose: bool) -> list[Text]:
    word = clean(found.severity).upper()
    numbers = (("token", found.tokens), ("rollout", found.rollouts))
    counts = [counted(number, noun) for noun, number in numbers if isinstance(number, int)]
    where = f" ({', '.join(counts)})" if counts else ""
    said = f"{prose(found.message)}{_action(found)}" if verbose else prose(found.shows or found.message)
    line = Text(f"{word} {clean(found.code)} {prose(found.title)}{where}: {said}")
    line.stylize(_STYLES.get(found.severity, "bold"), 0, len(word))
    examples = found.examples if verbose else []
    return wrap(line, width, 2) + [part for one in examples for part in wrap(f"    {_example(one)}", width, 6)]


def _recipe(found: Finding) -> str:
    """The recipe that a finding is about, without its options."""
    spec = found.evidence.get("spec")
    return f" ({elide(clean(spec.partition(':')[0]), 40)})" if isinstance(spec, str) else ""


def _action(found: Finding) -> str:
    return f" Try: {prose(found.action)}." if found.action else ""


def _example(example: Any) -> str:
    if isinstance(example, dict):
        return ", ".join(f"{clean(name)} {prose(value)}" for name, value in example.items())
    return prose(example)
