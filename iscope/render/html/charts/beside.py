"""Names beside the points of a chart, where they run into nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_LETTER, _LINE, _AWAY, _DOT = 5.8, 13.0, 6.0, 5.0  # pixels of text of 10.5 pixels, and of a point
_POSITIONS = tuple(f"{row} {side}" for side in ("right", "left", "center") for row in ("top", "bottom"))

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Plot:
    """The axes of a chart and its size on the screen, in pixels."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: float
    height: float

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point is, pixels from the lower left corner."""
        across, up = (
            (value - low) / (high - low or 1.0) for value, (low, high) in zip((x, y), (self.x, self.y), strict=True)
        )
        return across * self.width, up * self.height


def beside(
    texts: Sequence[str], points: Sequence[tuple[float, float]], wanted: Sequence[str], plot: Plot
) -> tuple[list[str], list[str]]:
    """Return the texts that have room and where each stands; one without room is empty.

    Args:
        texts: what is to stand beside each point; empty for nothing.
        points: the points, in the units of the axes.
        wanted: where each text would stand best: ``top right``, ...
        plot: the axes.
    """
    places = [plot.at(x, y) for x, y in points]
    dots = [(x - _DOT, y - _DOT, x + _DOT, y + _DOT) for x, y in places]
    taken: list[Box] = []
    written, positions = [], list(wanted)
    for index, (text, place) in enumerate(zip(texts, places, strict=True)):
        others = [dot for dot, other in zip(dots, places, strict=True) if other != place]
        free = _free(text, place, wanted[index], [*taken, *others], plot) if text else None
        written.append(text if free else "")
        if free:
            positions[index], box = free
            taken.append(box)
    return written, positions


def _free(
    text: str, place: tuple[float, float], wanted: str, taken: Sequence[Box], plot: Plot
) -> tuple[str, Box] | None:
    for position in dict.fromkeys((wanted, *_POSITIONS)):
        box = _box(text, place, position)
        inside = box[0] >= 0 and box[2] <= plot.width
        if inside and not any(_meet(box, other) for other in taken):
            return position, box
    return None


def _box(text: str, place: tuple[float, float], position: str) -> Box:
    row, side = position.split()
    width = _LETTER * len(text)
    left = place[0] + {"right": _AWAY, "left": -_AWAY - width, "center": -width / 2}[side]
    bottom = place[1] + (_AWAY if row == "top" else -_AWAY - _LINE)
    return left, bottom, left + width, bottom + _LINE


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
