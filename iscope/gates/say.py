"""Verdicts in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from iscope.gates.decide import Side
from iscope.gates.figures import Located
from iscope.gates.model import Form, Gate
from iscope.model import Figure
from iscope.render.numbers import from_log10, number

_NAMED = 4


def figure(found: Figure, *, sign: bool = False) -> str:
    """Return a figure as text, its interval in brackets; the reason where it is absent."""
    if found.value is None:
        return from_log10(found.log10) if found.log10 is not None else "absent"
    form = _signed if sign else _plain
    ends = f" [{form(found.low)}, {form(found.high)}]" if found.low is not None and found.high is not None else ""
    return form(found.value) + ends


def rule(form: Form, bound: Any, gate: Gate) -> str:
    """Return a limit in words."""
    words = {"above": "above", "below": "below", "either": "clear of"}
    text = form.words.format(words.get(bound, bound) if isinstance(bound, str) else _plain(bound))
    return f"{text} ({gate.window} rows each)" if form.of == "growth" else text


def sentence(
    one: Located,
    unit: str,
    form: Form,
    bound: Any,
    side: Side,
    compared: Figure | None,
    there: Figure | None,
    gate: Gate,
) -> str:
    """Return what was seen and how it stands to the limit, as a sentence."""
    held = one.figure if compared is None else compared
    if side == "absent":
        return f"{one.path} cannot be judged ({rule(form, bound, gate)}): {held.why or one.figure.why or 'absent'}."
    about = _about(one, unit, form, compared, there, gate)
    return f"{about}; {_standing(form, bound, side, gate)}."


def _about(one: Located, unit: str, form: Form, compared: Figure | None, there: Figure | None, gate: Gate) -> str:
    of = f" {unit}" if unit else ""
    if form.of == "slope" and compared is not None:
        return f"{one.path} has the slope {figure(compared, sign=True)}{of} per step"
    if form.of == "growth" and compared is not None:
        return f"{one.path}: the mean of the last {gate.window} rows is {figure(compared)} times that of the first"
    said = f"{one.path} is {figure(one.figure)}{of}"
    if there is None or compared is None:
        return said
    said += f", and {figure(there)} in the baseline"
    if form.of == "ratio":
        return f"{said}: {figure(compared)} times as much"
    return f"{said}: a change of {figure(compared, sign=True)}"


def _standing(form: Form, bound: Any, side: Side, gate: Gate) -> str:
    limit = rule(form, bound, gate)
    if side == "inside":
        return f"within the limit {limit}"
    if side == "noise":
        return f"the limit {limit} lies inside the noise"
    return f"beyond the limit {limit}"


def findings(chosen: Sequence[Mapping[str, Any]], what: str) -> str:
    """Return the findings that break a gate, as a sentence."""
    if not chosen:
        return f"no finding of {what}."
    named = "; ".join(f"{one['code']} {one['title']}" for one in chosen[:_NAMED])
    more = f"; and {len(chosen) - _NAMED} more" if len(chosen) > _NAMED else ""
    plural = "s" if len(chosen) > 1 else ""
    return f"{len(chosen)} finding{plural} of {what}: {named}{more}."


def _plain(value: float) -> str:
    """A number with three digits, but a round one as it was written."""
    short = f"{value:g}"
    return short if len(short.lstrip("-0.")) <= 3 and "e" not in short else number(value)


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else ''}{_plain(value)}"
