"""A chart before it is drawn: plotly's own data and layout as plain values, without plotly."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from iscope.model import Node
from iscope.render.nodes import figure
from iscope.render.strings import clean, elide

Json = dict[str, Any]

# Most points of a trace: more are not told apart on a screen, and make the page slow.
MOST_POINTS = 5000
COLORS = tuple(f"@c{index}" for index in range(8))
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon")
DASHES = ("solid", "dash", "dot", "dashdot")
_LABEL = 60
_FEW_DECADES = 3


@dataclass(frozen=True)
class Chart:
    """What the page shows of one chart.

    Attributes:
        id: its place in the page.
        title: its heading.
        lead: what is drawn over what, with estimator, level and denominator.
        data: plotly traces; a colour ``@name`` is one of the page's own, which differ between themes.
        layout: plotly layout.
        height: pixels.
        defines: terms of the glossary that it is about.
        notes: what a reader has to know besides: what is left out, and why.
        width: columns of the page's twelve.
    """

    id: str
    title: str
    lead: str
    data: list[Json]
    layout: Json
    height: int = 320
    defines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    width: int = 12

    @property
    def json(self) -> Json:
        """What the page's script draws."""
        return {"data": self.data, "layout": self.layout, "height": self.height}


@dataclass
class Frame:
    """Traces and layout while a chart is made."""

    data: list[Json] = field(default_factory=list)
    layout: Json = field(default_factory=dict)
    shapes: list[Json] = field(default_factory=list)
    annotations: list[Json] = field(default_factory=list)

    def add(self, **trace: Any) -> None:
        """Add a trace."""
        self.data.append(trace)

    def vertical(self, x: object, color: str, *, y: tuple[float, float] = (0, 1), width: float = 1) -> None:
        """Draw a dotted vertical line behind the traces, from one height of the plot to another."""
        ends = {"xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": y[0], "y1": y[1]}
        line = {"color": color, "width": width, "dash": "dot"}
        self.shapes.append({"type": "line", "layer": "below", "line": line, **ends})

    def say(self, text: str, *, size: float = 11, color: str = "@ink", **place: Any) -> None:
        """Write a text without an arrow; ``text`` is read for tags, as all of plotly's."""
        self.annotations.append({"text": text, "showarrow": False, "font": {"size": size, "color": color}, **place})

    def finish(self, **layout: Any) -> Json:
        """Return the layout with the shapes and annotations collected."""
        return self.layout | layout | {"shapes": self.shapes, "annotations": self.annotations}


def plain(text: object, limit: int = _LABEL) -> str:
    """Return a string of the user's for a heading or a note, which the template escapes: clean and short."""
    return elide(clean(text), limit)


def words(text: object, limit: int = _LABEL) -> str:
    """Return a string of the user's for a chart, where plotly would read tags: clean, short, escaped."""
    return html.escape(elide(clean(text), limit), quote=False)


def value(node: Node) -> float | None:
    """Return a number of the report for an axis; None leaves a gap."""
    found = figure(node)
    return None if found is None or found.value is None or not math.isfinite(found.value) else float(found.value)


def values(nodes: Sequence[Node]) -> list[float | None]:
    """Return numbers of the report for an axis."""
    return [value(node) for node in nodes]


def ends(nodes: Sequence[Node]) -> tuple[list[float | None], list[float | None]]:
    """Return the lower and upper ends of intervals, None where there are none."""
    found = [figure(node) for node in nodes]
    return [None if one is None else one.low for one in found], [None if one is None else one.high for one in found]


def thinned(count: int, most: int = MOST_POINTS) -> range:
    """Return the places of at most ``most`` points, evenly spread."""
    return range(0, count, max(1, math.ceil(count / most)))


def whole_percent(share: float | None) -> str:
    """Return a share as a whole percentage; what is not quite 0 or 100 does not look like it."""
    if share is None:
        return ""
    if 0 < share < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= share < 1 else f"{100 * share:.0f}%"


def share_of_base(node: Node) -> float | None:
    """Return an effective batch size over that of its base; None where either is absent."""
    part, base = value(node), value(node.get("base")) if isinstance(node, dict) else None
    return None if part is None or not base else part / base


def log_ticks(numbers: Sequence[float | None]) -> Json:
    """Return ticks at 1, 2 and 5 times the powers of ten that numbers span, for a logarithmic axis."""
    positive = [number for number in numbers if number is not None and number > 0]
    if not positive:
        return {}
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    factors = (1, 2, 5) if high - low <= _FEW_DECADES else (1,)
    ticks = [factor * 10.0**power for power in range(low, high + 1) for factor in factors]
    return {"type": "log", "tickmode": "array", "tickvals": ticks, "ticktext": [f"{tick:.6g}" for tick in ticks]}
