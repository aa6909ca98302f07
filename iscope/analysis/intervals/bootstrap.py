"""The bootstrap of a function of sums: replicates, and the BCa interval read off them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from iscope.analysis.intervals.clusters import SEED
from iscope.analysis.numbers import Array

# A function of k arrays of sums of one shape, element by element.
Statistic = Callable[..., Array]

REPLICATES = 1000
FEWEST_CLUSTERS = 10
_FEWEST_CARRYING = 2.0
_MOST_UNDEFINED = 0.05
_EXACT_BITS = 52
ROUNDING = 1e-12
_NORMAL = NormalDist()


def interval(table: Array, statistic: Statistic) -> tuple[float, float] | None:
    """Return the 95% interval of a statistic of column sums, or None where the data cannot give one.

    Args:
        table: float64 [B, k], the sums of each block.
        statistic: the figure as a function of k arrays of sums; it may return NaN.
    """
    blocks = table.shape[0]
    if blocks < FEWEST_CLUSTERS or not np.isfinite(table).all():
        return None
    totals = table.sum(axis=0)
    value = float(_apply(statistic, totals))
    without = _apply(statistic, totals - table)
    if not (math.isfinite(value) and np.isfinite(without).all()):
        return None
    moves = without.mean() - without
    spread = float(np.abs(moves).max())
    if spread <= ROUNDING * abs(value):
        return value, value
    moves = moves / spread
    squares = float((moves**2).sum())
    if squares**2 < _FEWEST_CARRYING * float((moves**4).sum()):
        return None
    found = _apply(statistic, resampled(table))
    found = np.sort(found[np.isfinite(found)])
    if found.size < (1 - _MOST_UNDEFINED) * REPLICATES:
        return None
    acceleration = float((moves**3).sum()) / (6 * squares**1.5)
    low, high = (_quantile(found, at) for at in _levels(found, value, acceleration, blocks))
    return low, high


def resampled(table: Array) -> Array:
    """Column sums [R, k] of R draws of B blocks with replacement.

    Values are rounded to multiples of a power of two, 2^-43 of the column's largest or finer, so that every sum is
    exact: its bits do not depend on how the product is split over threads.
    """
    return np.stack([_resampled(column.tobytes()) for column in table.T], axis=1)


@lru_cache(maxsize=64)
def _resampled(column: bytes) -> Array:
    """The same of one column, float64 [B]; many figures are over the same sums."""
    values = np.frombuffer(column)
    _, exponent = np.frexp(np.abs(values).max())
    shift = _EXACT_BITS - values.size.bit_length() - exponent
    return np.asarray(np.ldexp(draws(values.size) @ np.rint(np.ldexp(values, shift)), -shift))


@lru_cache(maxsize=32)  # each step of a breakdown may have a number of its own; 2 MB at most each
def draws(blocks: int) -> Array:
    """How often each replicate draws each block, float64 [R, B]; fixed for a number of blocks."""
    chosen = np.random.default_rng(SEED).integers(0, blocks, (REPLICATES, blocks))
    chosen += np.arange(REPLICATES)[:, None] * blocks
    counts = np.bincount(chosen.ravel(), minlength=REPLICATES * blocks)
    return counts.reshape(REPLICATES, blocks).astype(np.float64)


def _apply(statistic: Statistic, sums: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(statistic(*np.moveaxis(sums, -1, 0)))


def _levels(found: Array, value: float, acceleration: float, blocks: int) -> tuple[float, float]:
    """Where to read the ends off the sorted replicates, as shares of them."""
    below = (np.searchsorted(found, value, "left") + np.searchsorted(found, value, "right")) / (2 * found.size)
    bias = _NORMAL.inv_cdf(min(max(float(below), 1 / found.size), 1 - 1 / found.size))
    end = student(blocks - 1) * math.sqrt(blocks / (blocks - 1))
    low, high = (bias + (bias + at) / (1 - acceleration * (bias + at)) for at in (-end, end))
    return _NORMAL.cdf(low), _NORMAL.cdf(high)


def student(freedom: int) -> float:
    """97.5% point of Student's t, by its Cornish-Fisher expansion: to 2e-4 from 9 degrees of freedom on."""
    z = _NORMAL.inv_cdf(0.975)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + math.fsum(term / freedom**order for order, term in enumerate(terms, 1))


def _quantile(ordered: Array, at: float) -> float:
    """Linear between order statistics."""
    place = at * (ordered.size - 1)
    left = min(int(place), ordered.size - 2)
    return float(ordered[left] + (place - left) * (ordered[left + 1] - ordered[left]))
