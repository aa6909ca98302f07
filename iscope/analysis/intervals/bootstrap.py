"""The bootstrap of functions of sums: replicates, and the BCa intervals read off them, of many figures at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from iscope.analysis.intervals.clusters import SEED
from iscope.analysis.intervals.kernels import look, read_ends, sum_draws
from iscope.analysis.intervals.statistics import Statistic
from iscope.analysis.numbers import Array

Ends = tuple[float, float] | None

REPLICATES = 1000
FEWEST_CLUSTERS = 10
_FEWEST_CARRYING = 2.0
_MOST_UNDEFINED = 0.05
_EXACT_BITS = 52
_AT_ONCE = 64  # columns that fit into a core's cache, beside some draws
_LARGEST_POWER = 1000  # the power itself is a normal number of float64
_SUMS = 4  # of a statistic, at most
ROUNDING = 1e-12
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Columns:
    """J columns, each by its sums over B blocks.

    Attributes:
        blocks: float64 [J, B], the sums.
        totals: float64 [J], sums over all blocks, block after block, whatever columns stand beside.
        resampled: float64 [J, R], sums over R draws of the blocks with replacement.
    """

    blocks: Array
    totals: Array
    resampled: Array

    @classmethod
    def of(cls, blocks: Array) -> Columns:
        """Sum columns up, given by their sums over at least ``FEWEST_CLUSTERS`` blocks."""
        return cls(blocks, np.ascontiguousarray(np.cumsum(blocks, axis=1)[:, -1]), resampled(blocks))


def resampled(blocks: Array) -> Array:
    """Sums [J, R] over R draws with replacement of the B blocks of J columns, float64 [J, B].

    Values are rounded to multiples of a power of two, 2^-43 of the column's largest or finer, so that every sum is
    exact: its bits do not depend on the order of it.
    """
    count = blocks.shape[1]
    _, exponent = np.frexp(np.abs(blocks).max(axis=1, keepdims=True, initial=0.0))
    shift = _EXACT_BITS - count.bit_length() - exponent
    found, times = np.empty((len(blocks), REPLICATES)), draws(count)
    for first in range(0, len(blocks), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        sum_draws(found[some], np.rint(_times_power(blocks[some], shift[some])), times)
        found[some] = _times_power(found[some], -shift[some])
    return found


def _times_power(values: Array, shift: Array) -> Array:
    """Values [J, K] times 2^shift, integers [J, 1]."""
    if np.abs(shift).max() > _LARGEST_POWER:
        return np.asarray(np.ldexp(values, shift))
    return np.asarray(values * np.ldexp(1.0, shift))  # quicker by far


def interval(table: Array, statistic: Statistic) -> Ends:
    """Return the 95% interval of a statistic of column sums, or None where the data cannot give one.

    Args:
        table: float64 [B, k], the sums of each block.
        statistic: the figure as a function of k sums; it may be NaN.
    """
    if len(table) < FEWEST_CLUSTERS:
        return None
    columns = Columns.of(np.ascontiguousarray(table.T))
    low, high = intervals(columns, np.arange(table.shape[1])[None], statistic)[0].tolist()
    return None if math.isnan(low) else (low, high)


def intervals(columns: Columns, of: Array, statistic: Statistic) -> Array:
    """Return the same of F figures, low and high end of each [F, 2]; NaN where there is none.

    Args:
        columns: sums over blocks.
        of: int64 [F, k], the k columns that each figure is of.
        statistic: the figures as a function of k sums; it may be NaN.
    """
    ends = np.full((len(of), 2), np.nan)
    places = np.concatenate([of, np.repeat(of[:, :1], _SUMS - of.shape[1], axis=1)], axis=1)
    value, most, acceleration, carrying, size, below = looked = np.empty((6, len(of)))
    look(looked, int(statistic), columns.blocks, columns.totals, columns.resampled, places)
    known = np.isfinite(columns.totals[of]).all(axis=1) & np.isfinite(value) & np.isfinite(most)
    same = known & (most <= ROUNDING * np.abs(value))
    ends[same] = value[same, None]
    some = known & ~same & (carrying >= _FEWEST_CARRYING) & (size >= (1 - _MOST_UNDEFINED) * REPLICATES)
    if some.any():
        bias = np.array(list(map(_bias, size[some].tolist(), below[some].tolist())))
        found = np.empty((len(bias), 2))
        read_ends(
            found,
            int(statistic),
            columns.resampled,
            places[some],
            bias,
            acceleration[some],
            _widened(columns.blocks.shape[1]),
        )
        ends[some] = found
    return ends


@lru_cache(maxsize=32)  # each step of a breakdown may have a number of its own; 1 MB at most each
def draws(blocks: int) -> Array:
    """How often each replicate draws each block, float32 [R, B]; fixed for a number of blocks."""
    chosen = np.random.default_rng(SEED).integers(0, blocks, (REPLICATES, blocks))
    chosen += np.arange(REPLICATES)[:, None] * blocks
    counts = np.bincount(chosen.ravel(), minlength=REPLICATES * blocks)
    return counts.reshape(REPLICATES, blocks).astype(np.float32)


@lru_cache(maxsize=4096)
def _bias(size: float, twice_below: float) -> float:
    """Normal quantile of the share of so many replicates that are below the figure."""
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
