"""Values of configurations in one form, whatever a file spells them like, and back to text."""

from __future__ import annotations

import math
import re

from iscope.recipes.options import DIGITS, Value

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_WHOLE = re.compile(rf"[+-]?\d{{1,{DIGITS}}}", re.ASCII)
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "null", "none", "~"), None),
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
}


def plain(value: object) -> Value:
    """Return a value of a configuration as true, false, none, a number or a word.

    Text that spells one of the former is read as such, in any file: ``"2.0"``, ``None``, ``True``, ``1e-3``. A list
    becomes its items joined by commas, a whole number of more than 18 digits a float.
    """
    if isinstance(value, list | tuple):
        return ",".join(spelled(plain(item)) for item in value)
    if isinstance(value, int) and abs(value) >= 10**DIGITS:
        return _as_float(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value).strip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return text


def _as_float(number: int) -> float:
    """A whole number as a float64, infinite where it is larger than all of them, as ``1e999`` is."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def spelled(value: Value) -> str:
    """Return a value as most configurations write it: ``null``, ``true``, ``0.5``, a word."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def same(one: Value, other: Value) -> bool:
    """Return whether two values are the same; true is not 1, but 2 is 2.0."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
