"""Intervals of what gates compare: ratios and differences of two figures, slopes and growth over rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from iscope.model import Figure

FEWEST_ROWS = 3
_COVER = 0.95


def difference(here: Figure, there: Figure) -> Figure:
    """Return here - there, with its interval where both have one.

    The interval is put together from both, as if the dumps were independent: Zou & Donner, Statistics in Medicine
    27:1693, 2008. On the same prompts they are not, and the interval is too wide.
    """
    ends = _ends(here, there)
    if here.value is None or there.value is None:
        return Figure.absent(here.why or there.why or "absent")
    value = float(here.value) - float(there.value)
    if not math.isfinite(value):
        return Figure.absent("the difference overflows")
    if ends is None:
        return Figure(value)
    down, up = ends
    return _bounded(value, value - down, value + up)


def ratio(here: Figure, there: Figure) -> Figure:
    """Return here over there, with its interval where both have one and all their ends are above 0.

    The interval is that of the difference of the logs, by the method of ``difference``.
    """
    if here.value is None or there.value is None:
        return Figure.absent(here.why or there.why or "absent")
    if there.value == 0:
        return Figure.absent("it is 0 in the baseline, and nothing is a multiple of 0")
    value = here.value / there.value
    if not math.isfinite(value):
        return Figure.absent("the ratio overflows")
    logs = _logged(here), _logged(there)
    if logs[0] is None or logs[1] is None or value <= 0:
        return Figure(value)
    found = difference(logs[0], logs[1])
    if found.low is None or found.high is None or max(found.high, -found.low) > math.log(1e300):
        return Figure(value)
    return _bounded(value, math.exp(found.low), math.exp(found.high))


def slope(places: Sequence[float], figures: Sequence[Figure]) -> Figure:
    """Return the least-squares slope of figures [K] over their places [K], with its 95% interval.

    The interval is Student's t with K - 2 degrees of freedom, as if rows were independent.
    """
    values = [float(figure.value) for figure in figures if figure.value is not None]
    count = len(values)
    if count < len(figures):
        absent = next(figure for figure in figures if figure.value is None)
        return Figure.absent(f"{len(figures) - count} of {len(figures)} rows have no figure: {absent.why}")
    if count < FEWEST_ROWS:
        return Figure.absent(f"a slope takes {FEWEST_ROWS} rows or more, and there are {count}")
    middle, mean = sum(places) / count, sum(values) / count
    spread = sum((x - middle) ** 2 for x in places)
    if spread == 0:
        return Figure.absent("all rows have the same value")
    value = sum((x - middle) * (y - mean) for x, y in zip(places, values, strict=True)) / spread
    rest = sum((y - mean - value * (x - middle)) ** 2 for x, y in zip(places, values, strict=True))
    if not math.isfinite(value) or not math.isfinite(rest):
        return Figure.absent("the slope overflows")
    half = _t_quantile(count - 2) * math.sqrt(rest / (count - 2) / spread)
    return _bounded(value, value - half, value + half)


def growth(figures: Sequence[Figure], window: int) -> Figure:
    """Return the mean of the last ``window`` figures over that of the first, with its interval where all have one."""
    if len(figures) < 2 * window:
        return Figure.absent(f"{2 * window} rows are needed for windows of {window}, and there are {len(figures)}")
    return ratio(_mean(figures[-window:]), _mean(figures[:window]))


def _mean(figures: Sequence[Figure]) -> Figure:
    """The mean of independent figures."""
    absent = next((figure for figure in figures if figure.value is None), None)
    if absent is not None:
        return Figure.absent(f"a row has no figure: {absent.why}")
    count = len(figures)
    value = sum(float(figure.value or 0.0) for figure in figures) / count
    if any(figure.low is None or figure.high is None for figure in figures):
        return Figure(value)
    down = math.hypot(*(float(figure.value or 0.0) - float(figure.low or 0.0) for figure in figures)) / count
    up = math.hypot(*(float(figure.high or 0.0) - float(figure.value or 0.0) for figure in figures)) / count
    return _bounded(value, value - down, value + up)


def _ends(here: Figure, there: Figure) -> tuple[float, float] | None:
    """How far the interval of a difference reaches below and above it."""
    ends = (here.value, here.low, here.high, there.value, there.low, there.high)
    if any(end is None for end in ends):
        return None
    value, low, high, other, below, above = (float(end) for end in ends if end is not None)
    return math.hypot(value - low, above - other), math.hypot(high - value, other - below)


def _logged(figure: Figure) -> Figure | None:
    ends = (figure.value, figure.low, figure.high)
    if any(end is None or end <= 0 for end in ends):
        return None
    value, low, high = (math.log(end) for end in ends if end is not None)
    return Figure(value, min(low, value), max(high, value))


def _bounded(value: float, low: float, high: float) -> Figure:
    if not (math.isfinite(low) and math.isfinite(high)):
        return Figure(value)
    return Figure(value, min(low, value), max(high, value))


def _t_quantile(freedom: int) -> float:
    """The 97.5% quantile of Student's t, by bisection of its distribution function."""
    low, high = 1.0, 13.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _inside_t(middle, freedom) < _COVER else (low, middle)
    return (low + high) / 2


def _inside_t(t: float, freedom: int, pieces: int = 400) -> float:
    """Chance that Student's t lies within +-t: its density over the angle atan(t / sqrt(nu)), by Simpson's rule."""
    angle = math.atan(t / math.sqrt(freedom))
    step = angle / pieces
    inner = sum((4 if k % 2 else 2) * math.cos(k * step) ** (freedom - 1) for k in range(1, pieces))
    total = step / 3 * (1.0 + inner + math.cos(angle) ** (freedom - 1))
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    return 2 * scale * total
