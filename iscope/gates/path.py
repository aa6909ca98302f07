"""The path of a figure in the JSON report: ``recipes[trl/token_mask].gradient_left.all``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from iscope.errors import UsageError, did_you_mean

HEADS = ("mismatch", "recipes", "breakdowns", "coverage")
_NAME = re.compile(r'[^.\[\]"\s][^.\[\]"]*')
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_BARE = re.compile(r"[^\[\]\"]*")
_EVERY = "*"


@dataclass(frozen=True)
class Pick:
    """Rows of a list, chosen by what tells them apart.

    Attributes:
        text: a recipe, the value of a breakdown, the bounds of a bucket, ``*`` for every row, or ``-5:`` for the last.
        quoted: whether it stood in quotes, so that nothing in it has a meaning.
    """

    text: str
    quoted: bool = False

    @property
    def every(self) -> bool:
        """Whether every row is meant."""
        return self.text == _EVERY and not self.quoted

    @property
    def last(self) -> int | None:
        """How many of the last rows are meant; None where it is not that."""
        found = re.fullmatch(r"-(\d+):", self.text)
        return int(found[1]) if found and not self.quoted else None

    @property
    def several(self) -> bool:
        """Whether more than one row may be meant."""
        return self.every or self.last is not None


@dataclass(frozen=True)
class Path:
    """A figure, or several of them, by name.

    Attributes:
        text: as it was written.
        steps: names of groups, and picks of rows.
    """

    text: str
    steps: tuple[str | Pick, ...]

    @property
    def breakdown(self) -> str | None:
        """The key of the breakdown it looks into, if it does."""
        second = self.steps[1] if len(self.steps) > 1 else None
        return second if self.steps[0] == "breakdowns" and isinstance(second, str) else None

    @property
    def recipes(self) -> tuple[str, ...]:
        """The recipes it names."""
        pairs = zip(self.steps, self.steps[1:], strict=False)
        return tuple(
            pick.text for name, pick in pairs if name == "recipes" and isinstance(pick, Pick) and not pick.several
        )


def read_path(text: str) -> Path:
    """Return the path that a text is.

    Raises:
        UsageError: when it is none.
    """
    steps: list[str | Pick] = []
    place = 0
    while place < len(text):
        if text[place] == "[" and steps:
            pick, place = _pick(text, place)
            steps.append(pick)
        elif not steps or text[place] == ".":
            place += 1 if steps else 0
            found = _QUOTED.match(text, place) or _NAME.match(text, place)
            if found is None:
                raise _malformed(text)
            steps.append(_plain(found[1]) if text[place] == '"' else found[0])
            place = found.end()
        else:
            raise _malformed(text)
    if len(steps) < 2:
        raise _malformed(text) if not steps or steps[0] in HEADS else _unknown(text, steps)
    if steps[0] not in HEADS:
        raise _unknown(text, steps)
    return Path(text, tuple(steps))


def join(steps: Sequence[str | Pick]) -> str:
    """Return a path as text that reads back as the same steps."""
    return "".join(
        f"[{_spelled(step)}]" if isinstance(step, Pick) else f"{'.' if place else ''}{_name(step)}"
        for place, step in enumerate(steps)
    )


def _pick(text: str, place: int) -> tuple[Pick, int]:
    quoted = _QUOTED.match(text, place + 1)
    found = quoted or _BARE.match(text, place + 1)
    if found is None or not found[0].strip() or text[found.end() : found.end() + 1] != "]":
        raise _malformed(text)
    pick = Pick(_plain(quoted[1]), quoted=True) if quoted else Pick(found[0].strip())
    return pick, found.end() + 1


def _plain(quoted: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)


def _spelled(pick: Pick) -> str:
    plain = _BARE.fullmatch(pick.text) and pick.text.strip() == pick.text and pick.text and '"' not in pick.text
    if plain and not (pick.quoted and Pick(pick.text).several):
        return pick.text
    return _quote(pick.text)


def _name(name: str) -> str:
    return name if _NAME.fullmatch(name) else _quote(name)


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _malformed(text: str) -> UsageError:
    return UsageError(
        f"{text!r} is no path of a figure; write names with dots and rows in brackets, such as mismatch.k3, "
        "mismatch.by_p[.5-.9].k3 or recipes[trl/token_mask].gradient_left.all."
    )


def _unknown(text: str, steps: Sequence[str | Pick]) -> UsageError:
    head = str(steps[0])
    return UsageError(
        f"{text!r}: a figure is under {', '.join(HEADS[:-1])} or {HEADS[-1]}, not {head!r}; findings have a key of "
        f'their own, findings = "error".{did_you_mean(head, HEADS)}'
    )
