"""JSON whose numbers are all numbers that a report can hold."""

from __future__ import annotations

import json
import math
from typing import Any, Never

# As whole numbers of a dump's columns: of 64 bits, with a sign or without.
_LEAST, _MOST = -(2**63), 2**64 - 1
_LONGEST = len(str(_LEAST))


def loads(text: str | bytes) -> Any:
    """Return what JSON text holds.

    Raises:
        ValueError: when it is no JSON, is no UTF-8, is nested too deeply, or holds a number that is not finite, or a
            whole one that 64 bits do not hold.
    """
    try:
        return json.loads(text, parse_int=_whole, parse_float=_finite, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _whole(text: str) -> int:
    if len(text) > _LONGEST or not _LEAST <= int(text) <= _MOST:
        raise ValueError(f"{text[:20]} is too large a number")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is too large a number")
    return number


def _refuse(constant: str) -> Never:
    raise ValueError(f"{constant} is no JSON")
