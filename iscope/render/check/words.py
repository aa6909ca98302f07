"""Figures of a check in words: what every format prints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from iscope.model import Figure
from iscope.model.check import CheckResult, GateVerdict
from iscope.render.numbers import counted, from_log10, number
from iscope.render.strings import clean, prose

_NAMED_FILES = 3


def plain(value: float) -> str:
    """Return a number with three digits, a short one as it was written."""
    short = f"{value:g}"
    return short if len(short.lstrip("-0.")) <= 3 and "e" not in short else number(value)


def signed(value: float) -> str:
    """Return the same with its sign."""
    return f"{'+' if value >= 0 else ''}{plain(value)}"


def shown(found: Figure | None, *, sign: bool = False) -> str:
    """Return a figure, its 95% interval in brackets; nothing for None, ``absent`` where there is no value."""
    if found is None:
        return ""
    if found.value is None:
        return "absent" if found.log10 is None else from_log10(found.log10)
    form = signed if sign else plain
    ends = f" [{form(found.low)}, {form(found.high)}]" if found.low is not None and found.high is not None else ""
    return form(found.value) + ends


def compared(gate: GateVerdict) -> str:
    """Return what was held against the limit where that is not the figure itself."""
    if gate.compared is None or gate.compared.value is None:
        return ""
    times = gate.form in ("max_ratio", "min_ratio", "max_growth", "min_growth")
    return f"{shown(gate.compared)} x" if times else shown(gate.compared, sign=True)


def judged(gate: GateVerdict) -> str:
    """Return what was held against the limit, the figure itself or what it was compared to."""
    return compared(gate) or ("absent" if gate.compared is not None else shown(gate.value))


def rests_on(result: CheckResult) -> Iterator[str]:
    """Yield what was checked: files, counts, gates and baseline, one phrase each."""
    files = [file for file in result.provenance.get("files", []) if isinstance(file, dict)]
    names = [clean(PurePath(str(file.get("path", ""))).name) for file in files[:_NAMED_FILES]]
    if names:
        more = f" and {len(files) - len(names)} more" if len(files) > len(names) else ""
        yield ", ".join(names) + more
    for name, noun in (("rollouts", "rollout"), ("tokens", "scored token"), ("groups", "group")):
        found = result.counts.get(name)
        if found is not None:
            yield counted(found, noun)
    yield f"gates: {named(result.provenance.get('gates')) or 'default'}"
    if result.provenance.get("baseline"):
        yield f"baseline: {named(result.provenance['baseline'])}"


def named(file: Any) -> str:
    """Return the name of a file, fit to print."""
    return clean(PurePath(str(file)).name) if file else ""


def because(gate: GateVerdict) -> str:
    """Return what was seen, and why the gate is there."""
    reason = f" Reason: {prose(gate.reason)}." if gate.reason else ""
    return prose(gate.message) + reason


def changes(result: CheckResult) -> Iterator[str]:
    """Yield how each figure of the baseline changes."""
    for change in result.changes:
        before, after = (change[name] and Figure.from_dict(change[name]) for name in ("before", "after"))
        yield f"{clean(change['figure'])} {shown(before) or 'none'} -> {shown(after) or 'none'}"
