"""One gate from a table of a file or of Python, every key checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from iscope.errors import UsageError
from iscope.gates.model import FORMS, KEYS, SEVERITIES, Gate
from iscope.gates.path import Path, Pick, read_path
from iscope.place import Place, shown

_BEYOND = ("above", "below", "either")
_RATIOS = ("max_ratio", "min_ratio", "max_growth", "min_growth")
_AMOUNTS = ("max_rise", "max_fall")
_WORDS = {"level": ("fail", "warn"), "on_noise": ("fail", "warn", "pass")}
_WINDOW = 10_000


def read_gate(table: Any, place: Place, origin: str = "python") -> Gate:
    """Return the gate of a table.

    Args:
        table: keys of ``Gate`` and their values.
        place: where it stands.
        origin: what the verdict calls that place.

    Raises:
        UsageError: when a key is unknown, a value is no such value, or the gate could never be judged.
    """
    if not isinstance(table, Mapping):
        raise place.error(f"a gate is a table, not {shown(table)}")
    given: dict[str, Any] = {}
    for key, value in table.items():
        if key not in KEYS:
            raise place.error(f"there is no key {shown(key)}; the keys are {', '.join(KEYS)}", key, KEYS)
        given[key] = _value(key, value, place.at(key))
    return check_gate(Gate(**given, origin=origin), place, set(given))


def check_gate(gate: Gate, place: Place, given: Iterable[str] = ()) -> Gate:
    """Return a gate that can be judged.

    Raises:
        UsageError: when it cannot.
    """
    limits = [form for form, _ in gate.limits()]
    if bool(gate.figure) == bool(gate.findings):
        raise place.error('a gate has either a figure, such as "mismatch.k3", or findings, such as "error"')
    if gate.findings and limits:
        raise place.error(f"findings have no {limits[0].key}: such a gate fails on any of them")
    if gate.ignore and not gate.findings:
        raise place.at("ignore").error("it goes with findings")
    if gate.figure and not limits:
        raise place.error(f"{gate.figure} has no limit; set one of {', '.join(FORMS)}")
    if "window" in given and not any(form.of == "growth" for form in limits):
        raise place.at("window").error("it goes with max_growth or min_growth")
    for low, high in (("min", "max"), ("min_ratio", "max_ratio"), ("min_slope", "max_slope")):
        ends = getattr(gate, low), getattr(gate, high)
        if None not in ends and ends[0] > ends[1]:
            raise place.error(f"{low} {ends[0]:g} is above {high} {ends[1]:g}, so that nothing could pass")
    if gate.figure:
        _check_figure(gate, place, any(form.is_trend for form in limits))
    return gate


def _check_figure(gate: Gate, place: Place, trend: bool) -> None:
    try:
        path = read_path(gate.figure)
    except UsageError as error:
        raise UsageError(f"{place.home} {place.at('figure').key}: {error}") from error
    if trend and not _is_series(path):
        raise place.at("figure").error(
            f"a trend is over the rows of one breakdown, such as breakdowns.step[*].k3, not {shown(gate.figure)}"
        )


def _is_series(path: Path) -> bool:
    picks = [step for step in path.steps if isinstance(step, Pick) and step.several]
    third = path.steps[2] if len(path.steps) > 2 else None
    return path.breakdown is not None and picks == [third]


def read_word(value: Any, place: Place, known: Sequence[str]) -> str:
    """Return one of some words.

    Raises:
        UsageError: when it is none of them.
    """
    if not isinstance(value, str) or value not in known:
        raise place.error(f"it must be {', '.join(known[:-1])} or {known[-1]}, not {shown(value)}", value, known)
    return value


def read_number(value: Any, place: Place, *, above: float | None = None) -> float | None:
    """Return a finite number; None stays None.

    Raises:
        UsageError: when it is none, or not above what it has to be above.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise place.error(f"it must be a number, not {shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        raise place.error("it must be finite, not so large a number") from None
    if not math.isfinite(number) or (above is not None and number <= above):
        over = "" if above is None else f" above {above:g}"
        raise place.error(f"it must be a finite number{over}, not {shown(value)}")
    return number


def _value(key: str, value: Any, place: Place) -> Any:
    if key == "beyond_interval":
        return "either" if value is True else read_word(value, place, _BEYOND)
    if key in FORMS:
        return _limit(key, value, place)
    if key in _WORDS:
        return read_word(value, place, _WORDS[key])
    if key in ("findings", "ignore"):
        return _findings(value, place) if key == "findings" else _codes(value, place)
    if key == "window":
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _WINDOW:
            raise place.error(f"it must be a number of rows, 1 or more, not {shown(value)}")
        return value
    if not isinstance(value, str) or not value.strip():
        raise place.error(f"it must be text, not {shown(value)}")
    return value


def _limit(key: str, value: Any, place: Place) -> float:
    number = read_number(value, place, above=0.0 if key in _RATIOS else None)
    if number is None:
        raise place.error("it must be a number, not none")
    if key in _AMOUNTS and number < 0:
        raise place.error(f"it must not be below 0, not {shown(value)}")
    return number


def _findings(value: Any, place: Place) -> str | tuple[str, ...]:
    if isinstance(value, str):
        if value in SEVERITIES:
            return value
        if not value.startswith("IS"):
            return read_word(value, place, SEVERITIES)
    return _codes([value] if isinstance(value, str) else value, place)


def _codes(value: Any, place: Place) -> tuple[str, ...]:
    from iscope.analysis.findings import kinds

    if not isinstance(value, list | tuple) or not value:
        raise place.error(f'it must be a list of codes, such as ["IS003"], not {shown(value)}')
    known = [kind.code for kind in kinds()]
    for code in value:
        if code not in known:
            raise place.error(f"there is no finding {shown(code)}; iscope explain lists them", code, known)
    return tuple(value)
