"""The result of a check as JUnit XML: one test case per gate, a failure for each that failed."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from iscope.model.check import FAIL, PASS, WARN, CheckResult, GateVerdict
from iscope.render.check import words
from iscope.render.strings import clean


def render(result: CheckResult, *, width: int = 100, verbose: bool = False, color: bool = False) -> str:  # noqa: ARG001
    """Return the result as one test suite; a warning passes, and says so in its output."""
    tests, failed = len(result.gates), len(result.failures)
    counts = f'tests="{tests}" failures="{failed}" errors="0" skipped="0"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="iscope" {counts}>',
        f'  <testsuite name="iscope check" {counts}>',
        *(line for gate in result.gates for line in _case(gate)),
        f"    <system-out>{_text(_output(result))}</system-out>",
        "  </testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _case(gate: GateVerdict) -> Iterator[str]:
    head = gate.figure.partition(".")[0].partition("[")[0]
    opened = f"    <testcase classname={_attribute(f'iscope.{head}')} name={_attribute(f'{gate.figure} {gate.rule}')}"
    if gate.word == PASS:
        yield f"{opened}/>"
        return
    yield f"{opened}>"
    if gate.word == FAIL:
        said = words.because(gate)
        yield f'      <failure message={_attribute(gate.message)} type="gate">{_text(said)}</failure>'
    if gate.word == WARN:
        yield f"      <system-out>{_text(f'WARN {words.because(gate)}')}</system-out>"
    yield "    </testcase>"


def _output(result: CheckResult) -> str:
    dump = f"DUMP {result.dump.word}: {result.dump.message}"
    changed = [f"CHANGE {change}" for change in words.changes(result)]
    return " | ".join(
        [f"CHECK {result.word}: {result.message}", *words.rests_on(result), dump, *result.notes, *changed]
    )


def _text(content: str) -> str:
    return escape(clean(content))


def _attribute(content: str) -> str:
    return quoteattr(clean(content))
