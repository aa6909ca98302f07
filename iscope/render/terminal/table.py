"""Tables that keep every number whole: too wide for the page they continue below, on a narrow page they are records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from iscope.model import Node
from iscope.render.nodes import figure
from iscope.render.numbers import from_log10
from iscope.render.terminal.page import flow, fold, pad, wrap

NARROW = 72
_GAP = 2
Form = Callable[[float], str]


@dataclass(frozen=True)
class Cell:
    """What stands in a table for one figure.

    Attributes:
        text: the number, a dash where it is absent, nothing where nobody asked for it.
        why: why it is absent.
    """

    text: str = ""
    why: str | None = None


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        head: its heading, line by line.
        cells: one per row.
        legend: ``heading: meaning``, with estimator, level and denominator; columns may share one.
    """

    head: tuple[str, ...]
    cells: list[Cell]
    legend: str | None = None

    @property
    def title(self) -> str:
        """The heading on one line."""
        return " ".join(self.head)

    @property
    def width(self) -> int:
        """Cells that the widest line takes."""
        return max(cell_len(text) for text in (*self.head, *(cell.text for cell in self.cells)))


@dataclass(frozen=True)
class Label:
    """The name of a row.

    Attributes:
        text: what the row is about.
        mark: stands before it (``>`` for what the user asked for).
    """

    text: str
    mark: str = " "


def cell(node: Node, form: Form, *, interval: bool = False) -> Cell:
    """Return a number of the report as a cell.

    Args:
        node: the number, or nothing.
        form: how to write it.
        interval: put its 95% interval after it, where it has one.
    """
    found = figure(node)
    if found is None:
        return Cell()
    if found.log10 is not None:
        return Cell(from_log10(found.log10))
    if found.value is None:
        return Cell("-", found.why)
    ends = f" [{form(found.low)},{form(found.high)}]" if found.low is not None and found.high is not None else ""
    return Cell(form(found.value) + (ends if interval else ""))


def table(corner: str, labels: Sequence[Label], columns: Sequence[Column], width: int) -> list[Text]:
    """Return a table, its legends and the reasons for its dashes; columns without any cell are left out.

    Args:
        corner: the heading of the labels.
        labels: one per row.
        columns: the figures; each has a cell for each label.
        width: of the page, in cells.
    """
    filled = [column for column in columns if any(cell.text for cell in column.cells)]
    body = _records(corner, labels, filled, width) if width < NARROW else _bands(corner, labels, filled, width)
    return body + legends(filled, width) + reasons([(column.title, column.cells) for column in filled], width)


def legends(columns: Sequence[Column], width: int) -> list[Text]:
    """Return what the headings mean as one paragraph, each legend once."""
    texts = list(dict.fromkeys(column.legend for column in columns if column.legend))
    return [_styled(line, "dim") for line in wrap(f"  {'; '.join(texts)}", width, 2)] if texts else []


def reasons(named: Sequence[tuple[str, Sequence[Cell]]], width: int) -> list[Text]:
    """Return why cells show a dash, each reason once, with the names of the figures it is about."""
    by_why: dict[str, list[str]] = {}
    for name, cells in named:
        for why in dict.fromkeys(cell.why for cell in cells if cell.why):
            by_why.setdefault(why, []).append(name)
    return [line for why, names in by_why.items() for line in wrap(f"  - {', '.join(names)}: {why}", width, 4)]


_NARROWEST_LABEL = 24


def _bands(corner: str, labels: Sequence[Label], columns: Sequence[Column], width: int) -> list[Text]:
    names = _label_width(corner, labels, width)
    beside = width - sum(column.width + _GAP for column in columns)
    if _NARROWEST_LABEL <= beside < names:  # folded labels, but every column in one band
        names = beside
    corner = fold(corner, names)[0]
    folded = [_label_lines(label, names) for label in labels]
    lines: list[Text] = []
    for band in _pack(columns, width - names):
        lines.extend(_heading(corner if not lines else "", names, band))
        for row, label in enumerate(folded):
            numbers = "".join(" " * _GAP + pad(column.cells[row].text, column.width) for column in band)
            first = Text(pad(label[0], names, right=False) + numbers)
            lines.extend([_styled(first, "bold" if label[0].startswith(">") else ""), *map(Text, label[1:])])
    return lines


def _heading(corner: str, names: int, band: Sequence[Column]) -> list[Text]:
    height = max(len(column.head) for column in band)
    lines = []
    for line in range(height):
        heads = [(("",) * (height - len(column.head)) + column.head)[line] for column in band]
        left = pad(corner if line == height - 1 else "", names, right=False)
        right = "".join(" " * _GAP + pad(head, column.width) for head, column in zip(heads, band, strict=True))
        lines.append(_styled(Text(left + right), "bold"))
    return lines


def _pack(columns: Sequence[Column], width: int) -> list[list[Column]]:
    bands: list[list[Column]] = []
    left = 0
    for column in columns:
        needed = column.width + _GAP
        if not bands or needed > left:
            bands.append([])
            left = width
        bands[-1].append(column)
        left -= needed
    return bands


def _records(corner: str, labels: Sequence[Label], columns: Sequence[Column], width: int) -> list[Text]:
    lines = wrap(corner, width, 2)
    for row, label in enumerate(labels):
        lines.extend(_styled(Text(line), "bold") for line in _label_lines(label, width))
        cells = [(column.title, column.cells[row].text) for column in columns]
        lines.extend(flow([f"{title} {text}" for title, text in cells if text], width, indent=4))
    return lines


def _label_width(corner: str, labels: Sequence[Label], width: int) -> int:
    wanted = max((cell_len(label.text) + 2 for label in labels), default=0)
    return min(max(wanted, cell_len(corner)), max(26, int(0.46 * width)))


def _label_lines(label: Label, width: int) -> list[str]:
    first, *rest = [label.text] if cell_len(label.text) <= width - 2 else fold(label.text, width - 4)
    return [f"{label.mark} {first}", *(f"    {line}" for line in rest)]


def _styled(line: Text, style: str) -> Text:
    line.stylize(style)
    return line
