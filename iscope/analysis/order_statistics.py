"""Quantiles and medians of values that are not put in order for it, which takes a tenth of the time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from iscope.replay.compiled import compiled

Array = np.ndarray[Any, np.dtype[Any]]

_FEW, _SAMPLE = 200, 32
_RUNS = 8


def at_ranks(values: Array, *ranks: int) -> list[float]:
    """Return the values at some ranks, from 0 for the smallest; NaN where any value is.

    Args:
        values: the values [N], at least one.
        ranks: in rising order.
    """
    if math.isnan(values.max()):
        return [math.nan] * len(ranks)
    if np.count_nonzero(values[1:] < values[:-1]) < _RUNS:
        copied = np.sort(values, kind="stable")  # what consists of a few rising runs is merged in one go
    else:
        copied = np.array(values, dtype=np.float64)
        _put_in_place(copied, 0, copied.size, ranks)
    found: list[float] = copied[[*ranks]].tolist()
    return found


def largest(values: Array, count: int) -> Array:
    """Return so many of the largest values [N], none of which is NaN, in any order."""
    copied = np.array(values, dtype=np.float64)
    put_in_place(copied, 0, copied.size, copied.size - count)
    return copied[copied.size - count :]


def _put_in_place(values: Array, first: int, end: int, ranks: Sequence[int]) -> None:
    """Reorder values for several ranks; the middle one first, so that the others have few to look through."""
    if ranks:
        middle = len(ranks) // 2
        put_in_place(values, first, end, ranks[middle])
        _put_in_place(values, first, ranks[middle], [rank for rank in ranks[:middle] if rank < ranks[middle]])
        _put_in_place(values, ranks[middle], end, ranks[middle + 1 :])


def median(values: Array) -> float:
    """What np.median gives."""
    return quantiles(values, 0.5)[0]


def quantiles(values: Array, *shares: float) -> list[float]:
    """What np.quantile gives, of shares in rising order."""
    places = [share * (values.size - 1) for share in shares]
    found = at_ranks(values, *(rank for place in places for rank in (math.floor(place), math.ceil(place))))
    return [_between(place % 1.0, *ends) for place, *ends in zip(places, found[::2], found[1::2], strict=True)]


def _between(share: float, low: float, high: float) -> float:
    return low if low == high else low * (1 - share) + high * share


def rank_of(share: float, count: int) -> int:
    """Rank of the inverted-CDF quantile of so many values: the first whose share, with those below, is enough."""
    return max(1, math.ceil(share * count)) - 1


@compiled()
def put_in_place(values: Any, first: int, end: int, rank: int) -> None:
    """Reorder values so that one stands where it would in order, none before it larger and none after it smaller.

    Hoare's selection (CACM 4:321, 1961), without a branch for each value, and in three parts: many may be equal. Pivots
    come from a sample, as Floyd and Rivest have them (CACM 18:165, 1975), a bit to the side that leaves less.

    Args:
        values: float64 [N], none of them NaN; reordered from ``first`` to before ``end``.
        first: the first place; none before it is larger than one from there on.
        end: behind the last.
        rank: the place that gets its value.
    """
    left, right = first, end - 1
    while left < right:
        pivot = _pivot(values, left, right, rank)
        below = left
        for place in range(left, right + 1):
            value = values[place]
            values[place] = values[below]
            values[below] = value
            below += value < pivot
        if rank < below:
            right = below - 1
            continue
        left = below
        for place in range(below, right + 1):
            value = values[place]
            values[place] = values[left]
            values[left] = value
            left += value <= pivot
        if rank < left:
            return


@compiled()
def _pivot(values: Any, left: int, right: int, rank: int) -> float:
    """A value of those from ``left`` to ``right`` that is close to the one of a rank, or a bit nearer to the middle."""
    count = right - left + 1
    if count < _FEW:
        low, middle, high = values[left], values[(left + right) // 2], values[right]
        return float(max(min(low, middle), min(max(low, middle), high)))
    sample = np.empty(_SAMPLE)
    for place in range(_SAMPLE):
        value, at = values[left + place * (count - 1) // (_SAMPLE - 1)], place
        while at > 0 and sample[at - 1] > value:
            sample[at] = sample[at - 1]
            at -= 1
        sample[at] = value
    below = (rank - left) / count
    aside = 1.0 + math.sqrt(_SAMPLE * below * (1.0 - below))
    at = int(_SAMPLE * below + (aside if below < 0.5 else -aside))
    return float(sample[min(max(at, 0), _SAMPLE - 1)])
