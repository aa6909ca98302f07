"""Compiled loops of the bootstrap: sums over blocks and draws, how far figures move without a block, and ends."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from iscope.analysis.order_statistics import put_in_place
from iscope.replay.compiled import LANES, compiled


@compiled()
def sum_blocks(found: Any, block: Any, first: Any, second: Any, third: Any, fourth: Any) -> None:
    """Add four columns up by block, row after row: one sum after the other takes three times as long.

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


@compiled(LANES)
def moves(found: Any, values: Any) -> None:
    """Write how far leaving blocks out moves each figure: the most, its acceleration, and how many blocks carry it.

    The last is (sum m^2)^2 / sum m^4 of the moves m. NaN or infinite where any of the values is; of a figure that
    nothing moves the last two are NaN.

    Args:
        found: where to write, float64 [3, F].
        values: of each figure without each block, float64 [F, B].
    """
    blocks = values.shape[1]
    for figure in range(len(values)):
        total = most = squares = cubes = fourths = 0.0
        for block in range(blocks):
            total += values[figure, block]
        mean = total / blocks
        for block in range(blocks):
            size = abs(mean - values[figure, block])
            most = size if size > most or size != size else most
        for block in range(blocks):
            move = (mean - values[figure, block]) / most
            squares += move * move
            cubes += move * move * move
            fourths += move * move * (move * move)
        found[0, figure] = most
        found[1, figure] = cubes / (6.0 * squares * math.sqrt(squares))
        found[2, figure] = squares * squares / fourths


@compiled()
def count_replicates(found: Any, replicates: Any, value: Any) -> None:
    """Count the replicates of each figure that are numbers, and twice those below it; those that equal it count once.

    Args:
        found: where to write, int64 [2, F].
        replicates: float64 [F, R].
        value: the figures, float64 [F].
    """
    for figure in range(len(value)):
        size = below = 0
        for draw in range(replicates.shape[1]):
            one = replicates[figure, draw]
            size += abs(one) < math.inf
            below += (-math.inf < one < value[figure]) + (-math.inf < one <= value[figure])
        found[0, figure] = size
        found[1, figure] = below


@compiled()
def read_ends(found: Any, replicates: Any, bias: Any, acceleration: Any, end: float) -> None:
    """Read the ends of BCa intervals off those replicates that are numbers; NaN where there are too few of them.

    Args:
        found: where to write, float64 [F, 2].
        replicates: float64 [F, R].
        bias: of each figure, float64 [F].
        acceleration: of each figure, float64 [F].
        end: how far out the ends are, in standard deviations.
    """
    some = np.empty(replicates.shape[1])
    for figure in range(len(bias)):
        size = 0
        for draw in range(len(some)):
            some[size] = replicates[figure, draw]
            size += abs(some[size]) < math.inf
        for side in range(2):
            away = bias[figure] + (end if side else -end)
            at = bias[figure] + away / (1.0 - acceleration[figure] * away)
            place = 0.5 * (1.0 + math.erf(at / math.sqrt(2.0))) * (size - 1)
            found[figure, side] = between(some, size, place) if size > 1 and place == place else math.nan


@compiled()
def between(values: Any, size: int, place: float) -> float:
    """Linear between the first ``size`` values, at least two, as if they were in order; these are reordered."""
    left = min(int(place), size - 2)
    put_in_place(values, 0, size, left)
    low, high = values[left], math.inf
    for above in range(left + 1, size):
        high = min(high, values[above])
    found: float = low + (place - left) * (high - low)
    return found
