"""Plain pages: paragraphs and columns of text, folded to a width, without loading rich."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from iscope.render.strings import clean

_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_NARROWEST = 8
_SEPARATORS = ",:;=/_"


class Line(NamedTuple):
    """One line of a page.

    Attributes:
        text: what it says, without escapes.
        bold: whether it is a heading.
    """

    text: str = ""
    bold: bool = False


def page_width() -> int:
    """Return the columns of the terminal, or what COLUMNS says."""
    return max(_NARROWEST, shutil.get_terminal_size().columns)


def write(lines: Iterable[Line]) -> None:
    """Write lines to the standard output, headings in bold where it is a terminal that can."""
    bold = sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
    sys.stdout.write("".join(_written(line, bold) for line in lines))


def _written(line: Line, bold: bool) -> str:
    text = line.text.rstrip()
    return f"{_BOLD}{text}{_PLAIN}\n" if line.bold and bold and text else f"{text}\n"


def paragraph(text: str, width: int, indent: int = 0, *, bold: bool = False) -> list[Line]:
    """Return a text as lines of at most ``width`` cells, all of them indented; its own line breaks stay."""
    return [Line(" " * indent + piece, bold) for piece in fold(text, width - indent)]


def columns(cells: Sequence[tuple[str, int]], indent: int = 0, gap: int = 2) -> list[Line]:
    """Return texts side by side, each folded to its width in cells."""
    folded = [fold(text, width) for text, width in cells]
    widths = [width for _, width in cells]
    rows = zip_longest(*folded, fillvalue="")
    return [Line(" " * indent + (" " * gap).join(map(_padded, row, widths))) for row in rows]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _cells(text))


def facts(pairs: Sequence[tuple[str, str]], width: int, indent: int = 0) -> list[Line]:
    """Return labelled texts, labels in a column of their own."""
    labels = max((_cells(clean(label)) for label, _ in pairs), default=0)
    rest = width - indent - labels - 2
    if rest < _NARROWEST:
        return [line for label, text in pairs for line in paragraph(f"{label} {text}".strip(), width, indent)]
    return [line for label, text in pairs for line in columns([(label, labels), (text, rest)], indent)]


def fold(text: str, width: int) -> list[str]:
    """Return a text in pieces of at most ``width`` cells, broken at spaces, and within words that do not fit."""
    pieces: list[str] = []
    for line in text.split("\n"):
        words = clean(line)
        start = " " * min(len(words) - len(words.lstrip(" ")), max(0, width // 2))
        pieces += _fold_line(words.split(" "), start, max(1, width))
    return pieces


def _fold_line(words: Sequence[str], start: str, width: int) -> Iterator[str]:
    row, filled = start, False
    for word in (word for word in words if word):
        longer = f"{row} {word}" if filled else row + word
        if filled and _cells(longer) > width:
            yield row
            longer = start + word
        while _cells(longer) > width:
            head = _head(longer, width)
            yield longer[:head]
            longer = longer[head:]
        row, filled = longer, True
    yield row


def _head(text: str, width: int) -> int:
    """How many characters of a text fit, one at least; up to a separator where there is one in the second half."""
    count = min(len(text), width)
    while count > 1 and _cells(text[:count]) > width:
        count -= 1
    separator = max(text.rfind(mark, count // 2, count) for mark in _SEPARATORS)
    return count if separator < 0 else separator + 1


def _cells(text: str) -> int:
    """Cells that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
