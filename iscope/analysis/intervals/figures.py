"""Figures with intervals: each is defined once, as a function of sums, for the dump and for every replicate of it.

What these return waits for its interval, which ``closed`` finds for all figures of a report together: that is quicker
by far than one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from iscope.analysis.intervals.clusters import Clusters, weight_sums
from iscope.analysis.intervals.deferred import pending
from iscope.analysis.intervals.statistics import Statistic
from iscope.analysis.numbers import NO_TOKENS, Array, Scaled, figure, from_log
from iscope.model import Figure

# Weights are summed over the largest, unless they then leave so little.
_SMALLEST_SUM = 1e-200


def kish(weight: float, square: float) -> float:
    """(sum w)^2 / sum w^2; 0 where all weights are 0."""
    return weight / square * weight if square > 0 else 0.0


def ratio(clusters: Clusters, part: Array, whole: Array, why: str = NO_TOKENS) -> Figure:
    """Sum of a column [N] over the sum of another; absent where that is 0."""
    above, below = clusters.sums_of([part, whole])
    return ratio_of(above, below, why)


def ratio_of(part: Array, whole: Array, why: str = NO_TOKENS) -> Figure:
    """The same, given the sums of the columns over blocks [B]."""
    below = float(whole.sum())
    if not below:
        return Figure.absent(why)
    return pending(figure(float(part.sum()) / below), Statistic.QUOTIENT, (part, whole))


def fraction(clusters: Clusters, part: Array, whole: Array, why: str = NO_TOKENS) -> Figure:
    """Share of counts [N]; 0 and 1 have no interval: a sample without the event does not tell how rare it is."""
    above, below = clusters.sums_of([part, whole])
    return fraction_of(above, below, why)


def fraction_of(part: Array, whole: Array, why: str = NO_TOKENS) -> Figure:
    """The same, given the sums of the counts over blocks [B]."""
    below = float(whole.sum())
    return _unless_certain(figure(float(part.sum()) / below), (part, whole)) if below else Figure.absent(why)


def size_of(weight: Array, square: Array, count: Array) -> tuple[Figure, Figure]:
    """Kish's effective sample size of weights, and its share of their number, from sums [B] of w, w^2 and 1.

    The size is 0 when all weights are 0.
    """
    whole = float(count.sum())
    value = kish(float(weight.sum()), float(square.sum()))
    sums = (weight, square, count)
    share = pending(figure(value / whole), Statistic.SIZE_SHARE, sums) if whole else Figure.absent(NO_TOKENS)
    return pending(figure(value), Statistic.SIZE, sums[:2]), share


@dataclass(frozen=True)
class Weighed:
    """One weight per rollout, and sums over blocks.

    Attributes:
        weights: the weights [N].
        sums: float64 [B], their sums, over the largest weight.
    """

    weights: Scaled
    sums: Array

    @classmethod
    def over(cls, clusters: Clusters, whole: Scaled, *parts: Scaled) -> tuple[list[Weighed], Array]:
        """Sum weights, and two parts of them or none, up over blocks; and the squares of the weights, [B]."""
        sums, squares, *of_parts = weight_sums(clusters.block, clusters.count, whole, parts)
        return list(map(cls, (whole, *parts), (sums, *of_parts))), squares


def log_size(of: Weighed, squares: Array) -> Figure:
    """Kish's effective sample size of weights, given with sums [B] of their squares; 0 when all are 0."""
    sums = of.sums, squares
    return pending(figure(kish(*(float(column.sum()) for column in sums))), Statistic.SIZE, sums)


def weight_ratio(part: Weighed, whole: Weighed, why: str) -> Figure:
    """Sum of weights over the sum of others; absent where there is no whole, and why."""
    if whole.weights.log_sum == -math.inf:
        return Figure.absent(why)
    found = from_log(part.weights.log_sum - whole.weights.log_sum)
    return pending(found, Statistic.QUOTIENT, (part.sums, whole.sums), part.weights.top - whole.weights.top)


def part_of(sums: Array, whole: Weighed, part: Callable[[], Array], why: str) -> Figure:
    """Share of weights that are flagged; 0 and 1 have no interval.

    Args:
        sums: sums [B] of the flagged weights, over the largest of all.
        whole: the weights.
        part: returns the flags [N], which are asked for where the sums are too small.
        why: why there is no share where all weights are 0.
    """
    weights, above = whole.weights, float(sums.sum())
    if weights.log_sum == -math.inf:
        return Figure.absent(why)
    if above < _SMALLEST_SUM:
        found = from_log(Scaled(np.where(part(), weights.logs, -math.inf)).log_sum - weights.log_sum)
    else:
        found = from_log(weights.top + math.log(above) - weights.log_sum)
    return _unless_certain(found, (sums, whole.sums))


def _unless_certain(found: Figure, sums: Sequence[Array]) -> Figure:
    return found if found.value in (0.0, 1.0) else pending(found, Statistic.QUOTIENT, sums)
