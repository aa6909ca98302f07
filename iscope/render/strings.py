"""Strings that come from users, made fit to print: no control characters, no endless words."""

from __future__ import annotations

import re

LONGEST_WORD = 120
_LONG_WORD = rf"\S{{{LONGEST_WORD + 1},}}"


def clean(text: object) -> str:
    """Return a value as one line of printable characters; the others (controls, bidi overrides) as escapes."""
    said = str(text)
    if said.isprintable():
        return said
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in said)


def elide(text: str, limit: int) -> str:
    """Return at most ``limit`` characters of a text, its middle left out where it is longer."""
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def prose(text: object) -> str:
    """Return a sentence that may hold strings of users: clean, its longest words elided."""
    one_line = re.sub(r"\s*\n\s*", " ", str(text)).strip()
    return re.sub(_LONG_WORD, lambda match: elide(match[0], LONGEST_WORD), clean(one_line))
