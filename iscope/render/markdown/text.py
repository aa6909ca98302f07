"""Markdown that holds strings of users: nothing in them is read as markup, HTML or a mention."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from iscope.render.blocks.cells import Cell, Row, Table
from iscope.render.numbers import count
from iscope.render.strings import clean

# What means something anywhere in a line; a bracket only closes a link before a parenthesis, and an underscore inside a
# word means nothing.
_ANYWHERE = re.compile(r"[\\`*<|~$]|\](?=\()|(?<![^\W_])_|_(?![^\W_])")
_AT_THE_START = re.compile(r"^(?:[#>+=\[-]|\d+(?=[.)](?:\s|$)))")
_FENCE = re.compile("`+")
_APART = "\u200b"  # keeps a name behind an @ from being notified


def text(words: object) -> str:
    """Return words as one line of Markdown text that reads as it is."""
    line = clean(" ".join(str(words).split())).replace("&", "&amp;").replace("@", f"@{_APART}")
    return _AT_THE_START.sub(_quoted, _ANYWHERE.sub(r"\\\g<0>", line))


def _quoted(start: re.Match[str]) -> str:
    return f"{start[0]}\\" if start[0].isdigit() else f"\\{start[0]}"


def code(words: object) -> str:
    """Return words as a code span, whatever backticks they hold; bars are escaped, as tables need it."""
    line = clean(" ".join(str(words).split())).replace("|", "\\|")
    if not line:
        return ""
    fence = "`" * (max((len(run) for run in _FENCE.findall(line)), default=0) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def block(lines: str) -> str:
    """Return lines as a fenced block of code."""
    fence = "`" * max(3, max((len(run) for run in _FENCE.findall(lines)), default=0) + 1)
    return f"{fence}\n{lines}\n{fence}"


def items(lines: Iterable[str]) -> str:
    """Return lines of Markdown as a list."""
    return "\n".join(f"- {line}" for line in lines)


def table(found: Table, most: int) -> str:
    """Return a table with its caption above and its notes below, the first ``most`` rows of it."""
    heads = [text(found.corner), *(text(head.text) for head in found.heads)]
    ruler = [":--", *(":--" if head.words else "--:" for head in found.heads)]
    rows = [_line(heads), _line(ruler), *(_line(_row(row)) for row in found.rows[:most])]
    hidden = len(found.rows) - most
    notes = [
        *found.reasons,
        *found.notes,
        *([f"{count(hidden)} more rows are in the JSON report."] if hidden > 0 else []),
    ]
    return "\n\n".join([text(found.caption), "\n".join(rows), *([items(map(text, notes))] if notes else [])])


def _row(row: Row) -> list[str]:
    name = code(row.label) if row.label else ""
    marked = f"**{text(row.tag)}** {name}" if row.tag else name
    return [f"{marked} {text(row.small)}".strip() if row.small else marked, *(_cell(cell) for cell in row.cells)]


def _cell(cell: Cell) -> str:
    return text(f"{cell.text} {cell.small}")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
