"""The result of a check as workflow commands of GitHub: annotations of a step."""

from __future__ import annotations

from collections.abc import Sequence

from iscope.model.check import CheckResult, GateVerdict
from iscope.render.check import verdict_line, words
from iscope.render.strings import clean, elide

# GitHub shows ten annotations of each kind for a step and drops the others.
MOST = 10
_LONGEST = 4000


def render(result: CheckResult, *, width: int = 100, verbose: bool = False, color: bool = False) -> str:  # noqa: ARG001
    """Return an error for each gate that failed and a warning for each that warns, and the verdict as a line of text.

    Where there are more than GitHub shows, the last says how many.
    """
    lines = [*_commands("error", result.failures), *_commands("warning", result.warnings), verdict_line(result)]
    return "\n".join(lines) + "\n"


def _commands(kind: str, gates: Sequence[GateVerdict]) -> list[str]:
    shown = gates if len(gates) <= MOST else gates[: MOST - 1]
    lines = [_command(kind, f"iscope: {gate.figure} {gate.rule}", words.because(gate)) for gate in shown]
    if len(shown) < len(gates):
        rest = gates[len(shown) :]
        names = ", ".join(dict.fromkeys(clean(gate.figure) for gate in rest))
        lines.append(_command(kind, f"iscope: {len(rest)} more gates", f"{len(rest)} more gates: {names}"))
    return lines


def _command(kind: str, title: str, message: str) -> str:
    return f"::{kind} title={_property(elide(clean(title), 200))}::{_data(elide(clean(message), _LONGEST))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
