"""One number against one limit: inside it, beyond it, or not to be told from noise."""

from __future__ import annotations

from typing import Literal

from iscope.gates.model import Beyond, Gate
from iscope.model import Figure
from iscope.model.check import FAIL, PASS, WARN

Side = Literal["inside", "beyond", "noise", "absent"]


def against_limit(found: Figure, limit: float, *, upper: bool) -> Side:
    """Return where a figure lies, seen from a limit that belongs to what is allowed.

    With an interval it is ``beyond`` where all of it is, ``inside`` where all of it is, else ``noise``; without one
    the value alone decides. A value that overflowed is above every limit, one that underflowed is 0.
    """
    sign = 1.0 if upper else -1.0
    if found.value is None:
        if found.log10 is None:
            return "absent"
        return "beyond" if (sign * (found.log10 if found.log10 > 0 else -limit)) > 0 else "inside"
    if found.low is None or found.high is None:
        return "beyond" if sign * found.value > sign * limit else "inside"
    near, far = (found.low, found.high) if upper else (found.high, found.low)
    if sign * near > sign * limit:
        return "beyond"
    return "inside" if sign * far <= sign * limit else "noise"


def against_interval(here: Figure, there: Figure, beyond: Beyond) -> Side:
    """Return whether an interval lies wholly to one side of another.

    It is ``noise`` where the intervals overlap but neither holds the other's value.
    """
    if here.value is None or here.low is None or here.high is None or there.low is None or there.high is None:
        return "absent"
    above, below = beyond in ("above", "either"), beyond in ("below", "either")
    if (above and here.low > there.high) or (below and here.high < there.low):
        return "beyond"
    if there.value is None:
        return "absent"
    risen = above and here.value > there.high and here.low > there.value
    fallen = below and here.value < there.low and here.high < there.value
    return "noise" if risen or fallen else "inside"


def word_of(side: Side, gate: Gate) -> str:
    """Return the word of a verdict; what is absent breaks the gate."""
    broken = FAIL if gate.level == "fail" else WARN
    if side == "noise":
        return {"fail": broken, "warn": WARN, "pass": PASS}[gate.on_noise]
    return PASS if side == "inside" else broken
