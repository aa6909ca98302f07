"""One option of a recipe: its name in any accepted form, its value from text or from Python, and back to text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from iscope.errors import UsageError, did_you_mean
from iscope.place import shown
from iscope.recipes.lists import read_names, read_pair, read_pairs
from iscope.recipes.model import Option

Value = float | int | bool | str | None

# Stricter than float() and int(), which also read 1_000, nan, infinity and digits of other scripts.
_FLOAT = r"(?ai)[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?"
# Of whole numbers: with so many any is an int64.
DIGITS = 18
_INT = rf"(?a)[+-]?\d{{1,{DIGITS}}}"
_BOOLS = {"true": True, "false": False}


def accepted_names(option: Option) -> tuple[str, ...]:
    """Return every name of the option, short form first, without repeats."""
    return tuple(dict.fromkeys((option.short, option.name, *option.aliases)))


def find_option(recipe: str, options: Iterable[Option], name: str) -> Option:
    """Return the option that goes by ``name``: the framework's full name, the short form or an alias.

    Args:
        recipe: the recipe's name, for the error.
        options: the options to look in.
        name: as given by the user.

    Raises:
        UsageError: when there is none.
    """
    known = tuple(options)
    for option in known:
        if name in accepted_names(option):
            return option
    shorts = ", ".join(option.short for option in known)
    has = f"its options are {shorts}" if known else "it takes none"
    hint = did_you_mean(name, [accepted for option in known for accepted in accepted_names(option)])
    raise UsageError(f"{recipe} has no option {name!r}; {has}.{hint}")


def read_value(option: Option, text: str) -> Value:
    """Return the value that ``text`` spells for this option, or the text itself where it spells none."""
    if option.kind == "choice" and text in option.choices:
        return text
    if text == "none":
        return None
    if option.kind == "float" and re.fullmatch(_FLOAT, text):
        number = float(text)
        return number if math.isfinite(number) else text
    if option.kind == "int" and re.fullmatch(_INT, text):
        return int(text)
    return _BOOLS.get(text, text) if option.kind == "bool" else text


def check_value(recipe: str, option: Option, value: object) -> Value:
    """Return the value as its option's kind (a whole number given for a ``float`` becomes a float).

    Args:
        recipe: the recipe's name, for the error.
        option: the option it is for.
        value: from ``read_value`` or from Python.

    Raises:
        UsageError: when the option cannot take it.
    """
    if value is None and option.nullable:
        return None
    if option.kind == "bool" and isinstance(value, bool):
        return value
    if option.kind == "choice" and isinstance(value, str) and value in option.choices:
        return value
    listed = _listed(option, value)
    if listed is not None:
        return listed
    if isinstance(value, int | float) and not isinstance(value, bool):
        if option.kind == "int" and isinstance(value, int) and abs(value) < 10**DIGITS:
            return value
        if option.kind == "float" and _fits_float(value):
            return float(value)
    said = spell(value) if isinstance(value, float) else shown(value)
    hint = did_you_mean(value, option.choices) if isinstance(value, str) else ""
    raise UsageError(f"{recipe}: {option.short} must be {kind_in_words(option)}, not {said}.{hint}")


def _listed(option: Option, value: object) -> Value:
    """The value of an option that is a pair or a list, in one spelling; None where it is no such value or option."""
    match option.kind:
        case "pair":
            return read_pair(value)
        case "names":
            return read_names(value, option.choices)
        case "pairs":
            return read_pairs(value)
    return None


def is_set(value: Value) -> bool:
    """Return whether the option is in use: neither none nor false."""
    return value is not None and value is not False


def kind_in_words(option: Option) -> str:
    """Return what the option accepts: ``a number or none``."""
    kinds = {
        "float": "a number",
        "int": "a whole number",
        "bool": "true or false",
        "choice": ("one of " if len(option.choices) > 1 else "") + ", ".join(option.choices),
        "pair": "a number above 0 or two as low_high",
        "names": "one or more, with commas, of " + ", ".join(option.choices),
        "pairs": "numbers above 0 or pairs low_high, with commas",
    }
    return kinds[option.kind] + (" or none" if option.nullable else "")


def spell(value: object) -> str:
    """Return the value as the grammar writes it; ``read_value`` gives exactly the same value back."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _fits_float(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
