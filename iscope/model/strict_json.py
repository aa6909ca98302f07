"""JSON whose numbers are all numbers that a report can hold."""

from __future__ import annotations

import json
import math
from typing import Any, Never

_DIGITS = 18


def loads(text: str | bytes) -> Any:
    """Return what JSON text holds.

    Raises:
        ValueError: when it is no JSON, is no UTF-8, is nested too deeply, or holds a number that is not finite, or a
            whole one of more than 18 digits.
    """
    try:
        return json.loads(text, parse_int=_whole, parse_float=_finite, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _whole(text: str) -> int:
    if len(text.lstrip("-")) > _DIGITS:
        raise ValueError(f"a whole number has more than {_DIGITS} digits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is too large a number")
    return number


def _refuse(constant: str) -> Never:
    raise ValueError(f"{constant} is no JSON")
