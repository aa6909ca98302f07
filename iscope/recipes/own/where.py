"""Where in a user's recipes something stands, for the one sentence that says what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from iscope.errors import UsageError, did_you_mean
from iscope.recipes.options import spell

_LONGEST = 60


@dataclass(frozen=True)
class Where:
    """A place in a user's recipes.

    Attributes:
        home: file and table, or the recipe: ``my.toml: [recipes."mine/foo"]``.
        key: path of keys within it, ``filters[0].high``; empty for all of it.
        values_only: whether options are filled in, so that none may be named here.
    """

    home: str
    key: str = ""
    values_only: bool = False

    def at(self, key: str | int) -> Where:
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
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    text = spell(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
