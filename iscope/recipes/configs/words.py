"""The words of a shell script or an argument file, split as a shell splits them. Nothing is run."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from iscope.recipes.configs.entries import UnreadableError

_PIECE = re.compile(
    r"(?P<joined>\\\r?\n)|(?P<newline>\n)|(?P<space>[ \t\r\f\v]+)|(?P<comment>\#[^\n]*)|'(?P<single>[^']*)'"
    r'|"(?P<double>(?:[^"\\]|\\.)*)"|\\(?P<escaped>[^\n])|(?P<bare>[^\s\'"\\\#]+)',
    re.DOTALL,
)
_HERE = re.compile(r"<<-?[ \t]*(['\"]?)([A-Za-z_]\w*)\1", re.ASCII)
_ESCAPED = re.compile(r'\\(["\\$`])')


@dataclass(frozen=True)
class Word:
    """One word, without its quotes.

    Attributes:
        text: the word.
        line: the line it begins in, from 1.
        command: the command it belongs to: lines that a backslash joins are one.
        quoted: whether any of it was in quotes.
    """

    text: str
    line: int
    command: int
    quoted: bool


def split_words(text: str) -> Iterator[Word]:
    """Yield the words; comments and the texts of here-documents are left out.

    Raises:
        UnreadableError: when a quote does not close.
    """
    text = _without_documents(text)
    parts: list[str] = []
    position, line, command, began, quoted = 0, 1, 1, 1, False
    while position < len(text):
        piece = _PIECE.match(text, position)
        if piece is not None and piece.lastgroup == "comment" and parts:
            piece = None
            kind, content, end = "bare", text[position], position + 1
        elif piece is None:
            if text[position] != "\\":
                raise UnreadableError(f"a quote that opens in line {line} does not close")
            kind, content, end = "bare", "\\", position + 1
        else:
            kind, content, end = str(piece.lastgroup), piece[str(piece.lastgroup)], piece.end()
        if kind in ("joined", "newline", "space", "comment"):
            if parts:
                yield Word("".join(parts), began, command, quoted)
            parts, quoted = [], False
            command += kind == "newline"
        else:
            began = began if parts else line
            quoted = quoted or kind in ("single", "double")
            parts.append(_ESCAPED.sub(r"\1", content) if kind == "double" else content)
        line += text.count("\n", position, end)
        position = end
    if parts:
        yield Word("".join(parts), began, command, quoted)


def _without_documents(text: str) -> str:
    """The text with here-documents emptied; where one never ends, the rest of the text is no part of it."""
    lines = text.split("\n")
    ends: dict[str, list[int]] = {}
    for place, line in enumerate(lines):
        ends.setdefault(line.strip(), []).append(place)
    place = 0
    while place < len(lines):
        found = None if lines[place].lstrip().startswith("#") else _HERE.search(lines[place])
        place += 1
        closing = ends.get(found[2], []) if found is not None else []
        after = bisect_left(closing, place)
        if after < len(closing):
            lines[place : closing[after] + 1] = [""] * (closing[after] + 1 - place)
            place = closing[after] + 1
    return "\n".join(lines)
