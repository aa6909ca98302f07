"""Verdicts in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from iscope.gates.decide import Side
from iscope.gates.figures import Located
from iscope.gates.model import Form, Gate
from iscope.gates.path import read_path
from iscope.model import Figure
from iscope.render.check.words import plain, shown

_NAMED = 4
_OVERLAP: dict[Side, str] = {
    "inside": "its interval does not lie {} the baseline's",
    "beyond": "its interval lies wholly {} the baseline's",
    "noise": "its interval lies {} the baseline's in part: the limit lies within its noise",
}


def rule(form: Form, bound: Any, gate: Gate) -> str:
    """Return a limit in words."""
    if isinstance(bound, str):
        return "overlaps baseline's" if bound == "either" else f"not {bound} baseline's"
    text = form.words.format(plain(bound))
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
        return f"{one.path} has the slope {shown(compared, sign=True)}{of} per {_per(one.path)}"
    if form.of == "growth" and compared is not None:
        return f"{one.path}: the mean of the last {gate.window} rows is {shown(compared)} times that of the first"
    said = f"{one.path} is {shown(one.figure)}{of}"
    if there is None or compared is None:
        return said
    said += f", and {shown(there)} in the baseline"
    if form.of == "ratio":
        return f"{said}: {shown(compared)} times as much"
    return f"{said}: a change of {shown(compared, sign=True)}"


def _per(path: str) -> str:
    """What a slope over the rows of a breakdown is per."""
    key = read_path(path).breakdown
    return "step" if key == "step" else f"unit of {key}"


def _standing(form: Form, bound: Any, side: Side, gate: Gate) -> str:
    if form.of == "interval":
        return _OVERLAP[side].format({"either": "to one side of"}.get(str(bound), str(bound)))
    limit = f"the limit ({rule(form, bound, gate)})"
    return {"inside": f"within {limit}", "noise": f"{limit} lies within its noise"}.get(side, f"beyond {limit}")


def findings(chosen: Sequence[Mapping[str, Any]], what: str) -> str:
    """Return the findings that break a gate, as a sentence."""
    if not chosen:
        return f"no finding of {what}."
    named = "; ".join(f"{one['code']} {one['title']}" for one in chosen[:_NAMED])
    more = f"; and {len(chosen) - _NAMED} more" if len(chosen) > _NAMED else ""
    plural = "s" if len(chosen) > 1 else ""
    return f"{len(chosen)} finding{plural} of {what}: {named}{more}."
