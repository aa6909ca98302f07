"""Where in what a user wrote something stands, for the one sentence that says what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self

from iscope.errors import UsageError, did_you_mean

_LONGEST = 60


@dataclass(frozen=True)
class Place:
    """A place in a file, or in what was given to a function.

    Attributes:
        home: the file, and the table where it has several; or the argument.
        key: path of keys within it, ``gates[0].max``; empty for all of it.
    """

    home: str
    key: str = ""

    def at(self, key: str | int) -> Self:
        """Return the place one key, or one index of a list, further in."""
        if isinstance(key, int):
            return replace(self, key=f"{self.key}[{key}]")
        return replace(self, key=f"{self.key}.{key}" if self.key else key)

    def error(self, problem: str, word: object = None, known: Iterable[str] = ()) -> UsageError:
        """Return the error that says what is wrong here.

        Args:
            problem: the end of a sentence that begins with the place, without a full stop.
            word: what was written, of which a close word among the known ones is offered.
            known: the words that are known.
        """
        hint = did_you_mean(word, known) if isinstance(word, str) else ""
        return UsageError(f"{self.home}{' ' if self.key else ''}{self.key}: {problem}.{hint}")


def shown(value: object) -> str:
    """Return a value as an error quotes it, however long it is."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and abs(value) > 10**_LONGEST:
        return "so large a number"  # Python may refuse to spell it out
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return repr(_cut(value))
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
