"""Numbers of the report as cells of a table: what stands there, what it sorts by, and why it is absent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from iscope.model import Node
from iscope.render.nodes import figure
from iscope.render.numbers import from_log10
from iscope.render.strings import clean, elide, prose

Form = Callable[[float], str]
_LARGEST = 1.7e308
_WHY_LIMIT = 400


@dataclass(frozen=True)
class Cell:
    """What stands in a table for one figure.

    Attributes:
        text: the number, a dash where it is absent, nothing where the report does not have it.
        small: what stands below it: its 95% interval, or the base it is to be compared with.
        sort: the number to sort by; None sorts last.
        why: why it is absent.
    """

    text: str = ""
    small: str = ""
    sort: float | None = None
    why: str = ""


@dataclass(frozen=True)
class Head:
    """The heading of a column: its text, whether its cells are words, and its term of the glossary."""

    text: str
    words: bool = False
    define: str = ""


@dataclass(frozen=True)
class Row:
    """A row of a table: its label, what stands below the label, its cells, and its classes."""

    label: str
    cells: list[Cell]
    small: str = ""
    tag: str = ""
    css: str = ""


@dataclass(frozen=True)
class Table:
    """A table of the page; columns without any cell are left out.

    Attributes:
        caption: what its rows are, and over what.
        corner: the heading of the labels.
        heads: one per column.
        rows: the rows, each with a cell per column.
        notes: what a reader has to know besides.
    """

    caption: str
    corner: str
    heads: list[Head]
    rows: list[Row]
    notes: tuple[str, ...] = ()

    @property
    def reasons(self) -> list[str]:
        """Why cells show a dash, each reason once, with the columns that it is about."""
        by_why: dict[str, list[str]] = {}
        for row in self.rows:
            for head, cell in zip(self.heads, row.cells, strict=True):
                if cell.why and head.text not in by_why.setdefault(cell.why, []):
                    by_why[cell.why].append(head.text)
        return [f"- {', '.join(names)}: {why}" for why, names in by_why.items()]


def cell(node: Node, form: Form, *, interval: bool = True) -> Cell:
    """Return a number of the report as a cell, its 95% interval below it where it has one."""
    if isinstance(node, str | bool):
        return word(node)
    found = figure(node)
    if found is None:
        return Cell()
    if found.log10 is not None:
        far = _LARGEST if found.log10 > 0 else 0.0
        return Cell(from_log10(found.log10), sort=10**found.log10 if abs(found.log10) < 300 else far)
    if found.value is None:
        return Cell("-", why=elide(prose(found.why), _WHY_LIMIT))
    ends = f"[{form(found.low)}, {form(found.high)}]" if found.low is not None and found.high is not None else ""
    return Cell(form(found.value), ends if interval else "", float(found.value))


def word(text: object, limit: int = 80) -> Cell:
    """Return a string of the user's as a cell."""
    return Cell("" if text is None else elide(clean(text), limit))


def table(caption: str, corner: str, heads: Iterable[Head], rows: list[Row], notes: Iterable[str] = ()) -> Table:
    """Return a table without the columns that no row has anything in."""
    listed = list(heads)
    filled = [place for place in range(len(listed)) if any(row.cells[place].text for row in rows)]
    kept = [Row(row.label, [row.cells[place] for place in filled], row.small, row.tag, row.css) for row in rows]
    return Table(caption, corner, [listed[place] for place in filled], kept, tuple(notes))
