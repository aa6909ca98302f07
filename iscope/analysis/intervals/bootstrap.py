"""The bootstrap of functions of sums: replicates, and the BCa intervals read off them, of many figures at once."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import lru_cache
from statistics import NormalDist
from threading import Lock

import numpy as np

from iscope.analysis.intervals.clusters import SEED
from iscope.analysis.intervals.kernels import moves, sum_draws
from iscope.analysis.numbers import Array

# A function of k arrays of sums of one shape, element by element.
Statistic = Callable[..., Array]
Ends = tuple[float, float] | None

REPLICATES = 1000
FEWEST_CLUSTERS = 10
_FEWEST_CARRYING = 2.0
_MOST_UNDEFINED = 0.05
_EXACT_BITS = 52
ROUNDING = 1e-12
_NORMAL = NormalDist()
# Figures whose replicates are held at once, 8 kB per sum of each: in a core's cache.
_AT_ONCE = 64
# Columns whose sums over draws are held, 10 kB each.
_HELD = 128


def interval(table: Array, statistic: Statistic) -> Ends:
    """Return the 95% interval of a statistic of column sums, or None where the data cannot give one.

    Args:
        table: float64 [B, k], the sums of each block.
        statistic: the figure as a function of k arrays of sums; it may return NaN.
    """
    return intervals(table.T[:, None], statistic)[0]


def intervals(sums: Array, statistic: Statistic) -> list[Ends]:
    """Return the same of F figures, one statistic of as many blocks each.

    Args:
        sums: float64 [k, F, B], k sums of each block of each figure.
        statistic: the figures as a function of k arrays of sums; it may return NaN.
    """
    if sums.shape[2] < FEWEST_CLUSTERS:
        return [None] * sums.shape[1]
    found: list[Ends] = []
    for first in range(0, sums.shape[1], _AT_ONCE):
        with np.errstate(all="ignore"):
            found += _intervals(sums[:, first : first + _AT_ONCE], statistic)
    return found


def _intervals(sums: Array, statistic: Statistic) -> list[Ends]:
    totals = np.cumsum(sums, axis=2)[:, :, -1]  # block after block, whatever stands beside
    value, without = statistic(*totals), statistic(*(totals[:, :, None] - sums))
    most, acceleration, carrying = moved = np.empty((3, value.size))
    moves(moved, without)
    known = np.isfinite(sums).all(axis=(0, 2)) & np.isfinite(value) & np.isfinite(most)
    same = most <= ROUNDING * np.abs(value)
    found: list[Ends] = [(one, one) if sure else None for one, sure in zip(value.tolist(), known & same, strict=True)]
    rows = np.flatnonzero(known & ~same & (carrying >= _FEWEST_CARRYING))
    if rows.size:
        columns = sums[:, rows]
        replicates = statistic(*resampled(columns.reshape(-1, columns.shape[2])).reshape(*columns.shape[:2], -1))
        ends = _ends(replicates, value[rows], acceleration[rows], sums.shape[2])
        for row, one in zip(rows.tolist(), ends, strict=True):
            found[row] = one
    return found


def resampled(columns: Array) -> Array:
    """Sums [J, R] of J columns, float64 [J, B], over R draws of their B blocks with replacement.

    Values are rounded to multiples of a power of two, 2^-43 of the column's largest or finer, so that every sum is
    exact: its bits do not depend on the order of it.
    """
    contents = [column.tobytes() for column in columns]
    found = _LATEST.of(contents)
    new = [content for content in dict.fromkeys(contents) if content not in found]
    if new:
        made = dict(zip(new, _sums(np.frombuffer(b"".join(new)).reshape(len(new), -1)), strict=True))
        _LATEST.add(made)
        found |= made
    return np.array([found[content] for content in contents])


class _Latest:
    """The sums over draws of the columns that were resampled last: many figures are over the same columns."""

    def __init__(self) -> None:
        self._sums: OrderedDict[bytes, Array] = OrderedDict()
        self._lock = Lock()

    def of(self, contents: Iterable[bytes]) -> dict[bytes, Array]:
        """Return those of columns, given by their bytes, that are at hand."""
        with self._lock:
            found = {content: self._sums[content] for content in contents if content in self._sums}
            for content in found:
                self._sums.move_to_end(content)
            return found

    def add(self, made: dict[bytes, Array]) -> None:
        """Hold sums [R] of columns, up to ``_HELD`` of all."""
        with self._lock:
            self._sums |= made
            while len(self._sums) > _HELD:
                self._sums.popitem(last=False)


_LATEST = _Latest()


def _sums(columns: Array) -> Array:
    blocks = columns.shape[1]
    _, exponent = np.frexp(np.abs(columns).max(axis=1, keepdims=True))
    shift = _EXACT_BITS - blocks.bit_length() - exponent
    found = np.empty((len(columns), REPLICATES))
    sum_draws(found, np.rint(np.ldexp(columns, shift)), draws(blocks))
    return np.asarray(np.ldexp(found, -shift))


@lru_cache(maxsize=32)  # each step of a breakdown may have a number of its own; 1 MB at most each
def draws(blocks: int) -> Array:
    """How often each replicate draws each block, float32 [R, B]; fixed for a number of blocks."""
    chosen = np.random.default_rng(SEED).integers(0, blocks, (REPLICATES, blocks))
    chosen += np.arange(REPLICATES)[:, None] * blocks
    counts = np.bincount(chosen.ravel(), minlength=REPLICATES * blocks)
    return counts.reshape(REPLICATES, blocks).astype(np.float32)


def _ends(replicates: Array, value: Array, acceleration: Array, blocks: int) -> list[Ends]:
    """Read the ends of intervals off replicates [F, R] of figures [F]; None where too few are numbers."""
    defined = np.isfinite(replicates)
    whole = bool(defined.all())
    ordered = np.sort(replicates if whole else np.where(defined, replicates, np.nan), axis=1)
    sizes = np.full(value.size, REPLICATES) if whole else defined.sum(axis=1)
    figures, end = zip(ordered, value.tolist(), sizes.tolist(), acceleration.tolist(), strict=True), _widened(blocks)
    return [
        _read(row, one, size, bend, end) if size >= (1 - _MOST_UNDEFINED) * REPLICATES else None
        for row, one, size, bend in figures
    ]


def _read(ordered: Array, value: float, size: int, acceleration: float, end: float) -> tuple[float, float]:
    """Read the ends off the replicates [R] of a figure, in order, of which the first ``size`` are numbers."""
    below = int(ordered.searchsorted(value)) + int(ordered.searchsorted(value, "right"))
    bias = _bias(below, size)
    low, high = (bias + (bias + at) / (1 - acceleration * (bias + at)) for at in (-end, end))
    return _quantile(ordered, _NORMAL.cdf(low), size), _quantile(ordered, _NORMAL.cdf(high), size)


@lru_cache(maxsize=4096)
def _bias(twice_below: int, size: int) -> float:
    """Normal quantile of the share of replicates that are below the figure."""
    return _NORMAL.inv_cdf(min(max(twice_below / (2 * size), 1 / size), 1 - 1 / size))


@lru_cache(maxsize=512)
def _widened(blocks: int) -> float:
    return student(blocks - 1) * math.sqrt(blocks / (blocks - 1))


def student(freedom: int) -> float:
    """97.5% point of Student's t, by its Cornish-Fisher expansion: to 2e-4 from 9 degrees of freedom on."""
    z = _NORMAL.inv_cdf(0.975)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + math.fsum(term / freedom**order for order, term in enumerate(terms, 1))


def _quantile(ordered: Array, at: float, size: int) -> float:
    """Linear between the first ``size`` values, which are in order."""
    place = at * (size - 1)
    left = min(int(place), size - 2)
    low, high = ordered[left : left + 2].tolist()
    return float(low + (place - left) * (high - low))
