"""Lines of a page: words wrapped between numbers, never inside one, and the strings that become text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

_BREAKS = re.compile(r"[^ :,/]*[ :,/]?")


def wrap(text: Text | str, width: int, indent: int = 0) -> list[Text]:
    """Return a paragraph as lines of at most ``width`` cells, all but the first indented."""
    paragraph = Text(text) if isinstance(text, str) else text
    console = Console(file=io.StringIO(), width=width, _environ={})
    first, *rest = paragraph.wrap(console, width, overflow="fold") or [Text()]
    if rest:
        left = paragraph[len(first.plain) :]
        left = left[len(left.plain) - len(left.plain.lstrip()) :]
        rest = [Text(" " * indent) + line for line in left.wrap(console, max(1, width - indent), overflow="fold")]
    for line in (first, *rest):
        line.rstrip()
    return [first, *rest]


def flow(pieces: Sequence[str], width: int, indent: int = 2, gap: int = 3) -> list[Text]:
    """Return pieces side by side, as many to a line as fit; a piece is broken only when it alone does not fit."""
    lines: list[Text] = []
    row = ""
    for piece in pieces:
        longer = f"{row}{' ' * gap}{piece}" if row else " " * indent + piece
        if row and cell_len(longer) > width:
            lines.extend(wrap(row, width, indent + 2))
            longer = " " * indent + piece
        row = longer
    return lines + (wrap(row, width, indent + 2) if row else [])


def fold(label: str, width: int) -> list[str]:
    """Return a label in pieces of at most ``width`` cells, broken after a separator wherever one comes in time."""
    lines: list[str] = []
    row = ""
    for word in _BREAKS.findall(label):
        for piece in _chop(word, width):
            if row and cell_len(row + piece) > width:
                lines.append(row)
                row = ""
            row += piece
    return [line.rstrip() for line in [*lines, row] if line.strip()] or [""]


def _chop(word: str, width: int) -> list[str]:
    """Cut a word into pieces of at most ``width`` cells; characters without a width stay with what is before them."""
    pieces = [""]
    for character in word:
        if cell_len(pieces[-1] + character) > width:
            pieces.append("")
        pieces[-1] += character
    return pieces


def pad(text: str, width: int, *, right: bool = True) -> str:
    """Return a text of at most ``width`` cells filled up to it, on the left unless ``right`` is False."""
    filler = " " * (width - cell_len(text))
    return filler + text if right else text + filler


def to_str(lines: Iterable[Text], *, color: bool) -> str:
    """Return lines as a string, with ANSI colours or without a single escape."""
    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=color,
        color_system="standard" if color else None,
        legacy_windows=False,
        markup=False,
        highlight=False,
        emoji=False,
        _environ={},
    )
    for line in lines:
        line.rstrip()  # cells that are empty
        console.print(line, soft_wrap=True)
    return out.getvalue()
