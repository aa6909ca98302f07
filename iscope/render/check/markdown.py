"""The result of a check as Markdown, for a pull request or a job's summary."""

from __future__ import annotations

from collections.abc import Iterator

from iscope.model.check import FAIL, PASS, WARN, CheckResult, GateVerdict
from iscope.render.check import words
from iscope.render.markdown.text import code, items, text

# GitHub takes a summary of 1 MiB per step, and drops a larger one.
MOST_BYTES = 2**20 - 2**16
_PASSED = 40
_MARKS = {FAIL: "❌", WARN: "⚠️", PASS: "✅"}


def render(result: CheckResult, *, width: int = 100, verbose: bool = False, color: bool = False) -> str:  # noqa: ARG001
    """Return the result as GitHub-flavoured Markdown, below the 1 MiB of a step's summary.

    Args:
        result: what to show.
        width: not used: lines are as long as they are.
        verbose: every gate that passed.
        color: not used.
    """
    return _limited(list(_blocks(result, verbose=verbose)))


def _blocks(result: CheckResult, *, verbose: bool) -> Iterator[str]:
    yield f"# iscope check: {_MARKS[result.word]} {result.word}"
    yield f"**{text(result.message)}**"
    yield text(" · ".join(words.rests_on(result)))
    yield f"Dump: **{text(result.dump.word)}**: {text(result.dump.message)}"
    passed = [gate for gate in result.gates if gate.word == PASS]
    shown = [gate for gate in result.gates if gate.word != PASS] + (passed if verbose else passed[:_PASSED])
    yield "\n".join(["| | gate | value [95%] | limit | compared |", "|:--|:--|--:|:--|--:|", *map(_row, shown)])
    if len(shown) < len(result.gates):
        yield f"{len(result.gates) - len(shown)} more passed; the JSON result has all."
    broken = [*result.failures, *result.warnings]
    if broken:
        yield "## Why"
        yield items(f"**{gate.word}** {text(words.because(gate))}" for gate in broken)
    if result.changes:
        yield "## Changes of the baseline"
        yield items(map(text, words.changes(result)))
    if result.notes:
        yield "## Notes"
        yield items(map(text, result.notes))


def _row(gate: GateVerdict) -> str:
    cells = (words.shown(gate.value), gate.rule, words.compared(gate))
    return f"| {_MARKS[gate.word]} {gate.word} | {code(gate.figure)} | {' | '.join(map(text, cells))} |"


def _limited(blocks: list[str]) -> str:
    """The blocks, cut at a line where they are more than a summary takes."""
    lines = "\n\n".join(blocks).split("\n")
    size, kept = 0, 0
    for line in lines:
        size += len(line.encode()) + 1
        if size > MOST_BYTES:
            break
        kept += 1
    cut = [] if kept == len(lines) else ["", "Cut here; the JSON result has all."]
    return "\n".join([*lines[:kept], *cut]) + "\n"
