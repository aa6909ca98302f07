"""The bootstrap of functions of sums: replicates, and the BCa intervals read off them, of many figures at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist

import numpy as np

from iscope.analysis.intervals.clusters import SEED
from iscope.analysis.intervals.kernels import count_replicates, moves, read_ends, sum_draws
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
# Figures whose replicates are made at once, 8 kB of each: in a core's cache.
_AT_ONCE = 64


@dataclass(frozen=True)
class Columns:
    """J columns, each by its sums over B blocks.

    Attributes:
        blocks: float64 [J, B], the sums.
    """

    blocks: Array

    @cached_property
    def totals(self) -> Array:
        """Sums over all blocks [J], block after block, whatever columns stand beside."""
        return np.asarray(np.cumsum(self.blocks, axis=1)[:, -1])

    @cached_property
    def without(self) -> Array:
        """Sums over all blocks but each [J, B]."""
        return np.asarray(self.totals[:, None] - self.blocks)

    @cached_property
    def resampled(self) -> Array:
        """Sums over R draws of the blocks with replacement [J, R].

        Values are rounded to multiples of a power of two, 2^-43 of the column's largest or finer, so that every sum is
        exact: its bits do not depend on the order of it.
        """
        blocks = self.blocks.shape[1]
        _, exponent = np.frexp(np.abs(self.blocks).max(axis=1, keepdims=True))
        shift = _EXACT_BITS - blocks.bit_length() - exponent
        found = np.empty((len(self.blocks), REPLICATES))
        sum_draws(found, np.rint(np.ldexp(self.blocks, shift)), draws(blocks))
        return np.asarray(np.ldexp(found, -shift, out=found))


def interval(table: Array, statistic: Statistic) -> Ends:
    """Return the 95% interval of a statistic of column sums, or None where the data cannot give one.

    Args:
        table: float64 [B, k], the sums of each block.
        statistic: the figure as a function of k arrays of sums; it may return NaN.
    """
    columns = Columns(np.ascontiguousarray(table.T))
    low, high = intervals(columns, np.arange(table.shape[1])[:, None], statistic)[0].tolist()
    return None if math.isnan(low) else (low, high)


def intervals(columns: Columns, of: Array, statistic: Statistic) -> Array:
    """Return the same of F figures, low and high end of each [F, 2]; NaN where there is none.

    Args:
        columns: sums over blocks.
        of: int64 [k, F], the k columns that each figure is of.
        statistic: the figures as a function of k arrays of sums; it may return NaN.
    """
    if columns.blocks.shape[1] < FEWEST_CLUSTERS:
        return np.full((of.shape[1], 2), np.nan)
    some = (of[:, first : first + _AT_ONCE] for first in range(0, of.shape[1], _AT_ONCE))
    with np.errstate(all="ignore"):
        return np.concatenate([_intervals(columns, one, statistic) for one in some])


def _intervals(columns: Columns, of: Array, statistic: Statistic) -> Array:
    totals = columns.totals[of]
    value = statistic(*totals)
    most, acceleration, carrying = moved = np.empty((3, value.size))
    moves(moved, statistic(*columns.without[of]))
    known = np.isfinite(totals).all(axis=0) & np.isfinite(value) & np.isfinite(most)
    same = most <= ROUNDING * np.abs(value)
    found = np.full((value.size, 2), np.nan)
    found[known & same] = value[known & same, None]
    rows = np.flatnonzero(known & ~same & (carrying >= _FEWEST_CARRYING))
    if rows.size:
        replicates = statistic(*columns.resampled[of[:, rows]])
        found[rows] = _ends(replicates, value[rows], acceleration[rows], columns.blocks.shape[1])
    return found


@lru_cache(maxsize=32)  # each step of a breakdown may have a number of its own; 1 MB at most each
def draws(blocks: int) -> Array:
    """How often each replicate draws each block, float32 [R, B]; fixed for a number of blocks."""
    chosen = np.random.default_rng(SEED).integers(0, blocks, (REPLICATES, blocks))
    chosen += np.arange(REPLICATES)[:, None] * blocks
    counts = np.bincount(chosen.ravel(), minlength=REPLICATES * blocks)
    return counts.reshape(REPLICATES, blocks).astype(np.float32)


def _ends(replicates: Array, value: Array, acceleration: Array, blocks: int) -> Array:
    """Read the ends of intervals [F, 2] off replicates [F, R] of figures [F]; NaN where too few are numbers."""
    counts = np.empty((2, value.size), dtype=np.int64)
    count_replicates(counts, replicates, value)
    enough = counts[0] >= (1 - _MOST_UNDEFINED) * REPLICATES
    bias = np.array([_bias(*count) if some else 0.0 for some, *count in zip(enough, *counts.tolist(), strict=True)])
    ends = np.empty((value.size, 2))
    read_ends(ends, replicates, bias, acceleration, _widened(blocks))
    return np.where((enough & np.isfinite(ends).all(axis=1))[:, None], ends, np.nan)


@lru_cache(maxsize=4096)
def _bias(size: int, twice_below: int) -> float:
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
