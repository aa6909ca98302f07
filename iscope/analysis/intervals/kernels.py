"""Compiled loops of the bootstrap: sums over blocks and draws, how far figures move without a block, and ends."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from iscope.analysis.intervals.statistics import evaluate, of_sums
from iscope.analysis.order_statistics import put_in_place
from iscope.replay.compiled import LANES, compiled

_ASIDE = 0.3  # standard deviations by which a guess is off, so that what is sought lies on the side that is looked at


@compiled()
def sum_blocks(found: Any, block: Any, column: Any) -> None:
    """Add a column up by block, row after row.

    Args:
        found: what to add to, float64 [B].
        block: the block of each row, int64 [N], no number of which is below 0.
        column: float64 [N], read only.
    """
    for row in range(len(block)):
        found[np.uint64(block[row])] += column[row]


@compiled()
def sum_four(found: Any, block: Any, first: Any, second: Any, third: Any, fourth: Any) -> None:
    """Add four columns up by block, which takes as long as three, one after the other.

    Args:
        found: what to add to, float64 [B, 4].
        block: the block of each row, int64 [N], no number of which is below 0.
        first: float64 [N], read only, as all columns.
        second: float64 [N].
        third: float64 [N].
        fourth: float64 [N].
    """
    for row in range(len(block)):
        at = np.uint64(block[row])
        found[at, 0] += first[row]
        found[at, 1] += second[row]
        found[at, 2] += third[row]
        found[at, 3] += fourth[row]


@compiled()
def sum_weights(found: Any, block: Any, whole: Any, positive: Any, negative: Any) -> None:
    """Add weights up by block, their squares, and two parts of them.

    Args:
        found: what to add to, float64 [B, 4]: weights, squares, and either part.
        block: the block of each row, int64 [N], no number of which is below 0.
        whole: float64 [N], read only, as all columns.
        positive: float64 [N].
        negative: float64 [N].
    """
    for row in range(len(block)):
        at, weight = np.uint64(block[row]), whole[row]
        found[at, 0] += weight
        found[at, 1] += weight * weight
        found[at, 2] += positive[row]
        found[at, 3] += negative[row]


@compiled(LANES)
def sum_draws(found: Any, columns: Any, times: Any) -> None:
    """Sum columns of whole numbers over draws of their blocks, eight sums at a time: few numbers are read for each.

    Args:
        found: where to write, float64 [J, R], R a multiple of four.
        columns: float64 [J, B], whole numbers of which every sum is exact.
        times: how often each draw takes each block, float32 [R, B].
    """
    for draw in range(0, found.shape[1], 4):
        for first in range(0, len(columns), 2):
            second = min(first + 1, len(columns) - 1)
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = 0.0
            for block in range(columns.shape[1]):
                a, b = columns[first, block], columns[second, block]
                t0, t1 = times[draw, block], times[draw + 1, block]
                t2, t3 = times[draw + 2, block], times[draw + 3, block]
                a0, a1, a2, a3 = a0 + a * t0, a1 + a * t1, a2 + a * t2, a3 + a * t3
                b0, b1, b2, b3 = b0 + b * t0, b1 + b * t1, b2 + b * t2, b3 + b * t3
            found[first, draw], found[first, draw + 1] = a0, a1
            found[first, draw + 2], found[first, draw + 3] = a2, a3
            found[second, draw], found[second, draw + 1] = b0, b1
            found[second, draw + 2], found[second, draw + 3] = b2, b3


@compiled()
def look(found: Any, statistic: int, columns: Any, totals: Any, resampled: Any, of: Any) -> None:
    """Write what intervals depend on, of each figure.

    The figure; how far leaving a block out moves it at most, its acceleration, and how many blocks carry it
    (``moves``); how many replicates are numbers; twice those of them below the figure, those that equal it once.

    Args:
        found: where to write, float64 [6, F].
        statistic: what the figures are of their sums, a ``Statistic``.
        columns: sums over blocks, float64 [J, B].
        totals: sums over all blocks, float64 [J].
        resampled: sums over draws, float64 [J, R].
        of: the columns of each figure, int64 [F, 4].
    """
    without, replicates, none = np.empty(columns.shape[1]), np.empty(resampled.shape[1]), np.zeros(4)
    for figure in range(len(of)):
        sums = totals[of[figure]]
        evaluate(without, statistic, columns, of[figure], sums, -1.0)
        evaluate(replicates, statistic, resampled, of[figure], none, 1.0)
        value = of_sums(statistic, sums[0], sums[1], sums[2], sums[3])
        found[0, figure] = value
        found[1, figure], found[2, figure], found[3, figure] = moves(without)
        found[4, figure], found[5, figure] = count_replicates(replicates, value)


@compiled(LANES)
def moves(values: Any) -> tuple[float, float, float]:
    """How far a figure moves without a block: the most, its acceleration, and how many blocks carry it.

    The last is (sum m^2)^2 / sum m^4 of the moves m. NaN or infinite where any of the values is; of a figure that
    nothing moves the last two are NaN.

    Args:
        values: the figure without each block, float64 [B].
    """
    total = most = squares = cubes = fourths = 0.0
    for block in range(len(values)):
        total += values[block]
    mean = total / len(values)
    for block in range(len(values)):
        size = abs(mean - values[block])
        most = size if size > most or size != size else most
    for block in range(len(values)):
        move = (mean - values[block]) / most
        squares += move * move
        cubes += move * move * move
        fourths += move * move * (move * move)
    return most, cubes / (6.0 * squares * math.sqrt(squares)), squares * squares / fourths


@compiled()
def count_replicates(replicates: Any, value: float) -> tuple[int, int]:
    """Count replicates [R] that are numbers, and twice those of them below a value; those that equal it count once."""
    size = below = 0
    for draw in range(len(replicates)):
        one = replicates[draw]
        size += abs(one) < math.inf
        below += (-math.inf < one < value) + (-math.inf < one <= value)
    return size, below


@compiled()
def read_ends(
    found: Any, statistic: int, resampled: Any, of: Any, bias: Any, acceleration: Any, widened: float
) -> None:
    """Read the ends of BCa intervals off replicates, of which enough must be numbers.

    Args:
        found: where to write, float64 [F, 2].
        statistic: what the figures are of their sums, a ``Statistic``.
        resampled: sums over draws, float64 [J, R].
        of: the columns of each figure, int64 [F, 4].
        bias: of each figure, float64 [F].
        acceleration: of each figure, float64 [F].
        widened: how far out the ends are, in standard deviations.
    """
    replicates, near, none = np.empty(resampled.shape[1]), np.empty(resampled.shape[1]), np.zeros(4)
    for figure in range(len(of)):
        evaluate(replicates, statistic, resampled, of[figure], none, 1.0)
        size = to_the_front(replicates)
        middle, spread = middle_and_spread(replicates[:size])
        for side in range(2):
            away = bias[figure] + (widened if side else -widened)
            at = bias[figure] + away / (1.0 - acceleration[figure] * away)
            place = 0.5 * (1.0 + math.erf(at / math.sqrt(2.0))) * (size - 1)
            guess = middle + spread * (at - _ASIDE if side else at + _ASIDE)
            found[figure, side] = between(replicates[:size], near, place, guess, side) if place == place else math.nan


@compiled()
def to_the_front(values: Any) -> int:
    """Move values that are numbers before all others; return how many there are."""
    numbers = 0
    for place in range(len(values)):
        numbers += abs(values[place]) < math.inf
    if numbers < len(values):  # seldom, and slower
        size = 0
        for place in range(len(values)):
            values[size] = values[place]
            size += abs(values[size]) < math.inf
    return numbers


@compiled(LANES)
def middle_and_spread(values: Any) -> tuple[float, float]:
    """Mean and standard deviation of values."""
    first = second = 0.0
    for place in range(len(values)):
        first += values[place]
    mean = first / len(values)
    for place in range(len(values)):
        second += (values[place] - mean) ** 2
    return mean, math.sqrt(second / len(values))


@compiled()
def between(values: Any, near: Any, place: float, guess: float, side: int) -> float:
    """What is at a place of values, at least two, if they were in order, linear between two of them.

    Args:
        values: float64 [R], all numbers.
        near: room for as many.
        place: the place.
        guess: a value to one side of which there are few, the one that is sought among them; if it is not, no matter.
        side: which side, 0 for those below, 1 for those above.
    """
    left, count = min(int(place), len(values) - 2), 0
    for one in values:
        near[count] = one
        count += (one >= guess) if side else (one <= guess)
    rank = left - (len(values) - count) * side
    if rank < 0 or rank + 2 > count:
        near[: len(values)] = values
        rank, count = left, len(values)
    put_in_place(near, 0, count, rank)
    low, high = near[rank], math.inf
    for above in range(rank + 1, count):
        high = min(high, near[above])
    found: float = low + (place - left) * (high - low)
    return found
