"""Figures with intervals: each is defined once, as a function of sums, for the dump and for every replicate of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iscope.analysis.intervals.bootstrap import ROUNDING, Ends, Statistic, intervals
from iscope.analysis.intervals.clusters import Clusters
from iscope.analysis.numbers import NO_TOKENS, Array, Scaled, figure, from_log
from iscope.model import Figure

# Weights are summed over the largest, unless they then leave so little.
_SMALLEST_SUM = 1e-200


@dataclass(frozen=True)
class Asked:
    """A figure to be bounded together with others.

    Attributes:
        found: the figure.
        statistic: the figure as a function of sums; None where it has no interval.
        sums: float64 [B] each, what these are sums of, over the blocks of what is resampled.
    """

    found: Figure
    statistic: Statistic | None = None
    sums: Sequence[Array] = ()


def answered(*asked: Asked) -> list[Figure]:
    """Return figures with their intervals, where they have one; resampled together, which is quicker."""
    figures = [one.found for one in asked]
    bounded = [place for place, one in enumerate(asked) if one.statistic is not None and _may_be_bounded(one.found)]
    for statistic in dict.fromkeys(asked[place].statistic for place in bounded):
        assert statistic is not None
        places = [place for place in bounded if asked[place].statistic is statistic]
        sums = np.array([asked[place].sums for place in places]).swapaxes(0, 1)
        for place, ends in zip(places, intervals(sums, statistic), strict=True):
            figures[place] = with_ends(figures[place], ends)
    return figures


def with_ends(found: Figure, ends: Ends) -> Figure:
    """Return a figure with the ends of its interval, moved so that it holds the value; itself where it has none."""
    if ends is None or found.value is None or not _may_be_bounded(found):
        return found
    low, high = ends
    if high - low <= ROUNDING * abs(found.value):
        low = high = found.value
    return Figure(found.value, min(low, found.value), max(high, found.value))


def _may_be_bounded(found: Figure) -> bool:
    return found.value is not None and found.log10 is None


def quotient(part: Array, whole: Array) -> Array:
    """Part / whole."""
    return np.divide(part, whole)


def kish(weight: Array, square: Array) -> Array:
    """(sum w)^2 / sum w^2."""
    return np.divide(weight, square) * weight


def kish_share(weight: Array, square: Array, count: Array) -> Array:
    """(sum w)^2 / sum w^2 of the number of weights."""
    return kish(weight, square) / count


def ask_ratio(clusters: Clusters, part: Array, whole: Array, why: str = NO_TOKENS) -> Asked:
    """Sum of a column [N] over the sum of another; absent where that is 0."""
    below = whole.sum()
    if not below:
        return Asked(Figure.absent(why))
    return Asked(figure(float(part.sum() / below)), quotient, clusters.sums_of([part, whole]))


def ratio(clusters: Clusters, part: Array, whole: Array, why: str = NO_TOKENS) -> Figure:
    """The same with its interval."""
    return answered(ask_ratio(clusters, part, whole, why))[0]


def ask_fraction(clusters: Clusters, part: Array, whole: Array, why: str = NO_TOKENS) -> Asked:
    """Share of counts [N]; 0 and 1 have no interval: a sample without the event does not tell how rare it is."""
    above, below = clusters.sums_of([part, whole])
    if not below.sum():
        return Asked(Figure.absent(why))
    found = figure(float(above.sum() / below.sum()))
    return Asked(found) if _is_certain(found) else Asked(found, quotient, (above, below))


def fraction(clusters: Clusters, part: Array, whole: Array, why: str = NO_TOKENS) -> Figure:
    """The same with its interval."""
    return answered(ask_fraction(clusters, part, whole, why))[0]


def size(clusters: Clusters, weight: Array, square: Array, count: Array, why: str = NO_TOKENS) -> tuple[Figure, Figure]:
    """Kish's effective sample size of weights, and its share of their number, from sums of w, w^2 and 1 [N].

    The size is 0 when all weights are 0.
    """
    whole, squares = float(count.sum()), square.sum()
    value = float(kish(weight.sum(), squares)) if squares > 0 else 0.0
    sums = clusters.sums_of([weight, square, count])
    share = Asked(figure(value / whole), kish_share, sums) if whole else Asked(Figure.absent(why))
    found = answered(Asked(figure(value), kish, sums[:2]), share)
    return found[0], found[1]


def ask_log_size(clusters: Clusters, weights: Scaled) -> Asked:
    """Kish's effective sample size of one weight per rollout; 0 when all are 0."""
    sums = clusters.sums_of([weights.values, weights.squares])
    value = float(kish(*(column.sum() for column in sums))) if weights.top > -math.inf else 0.0
    return Asked(figure(value), kish, sums)


def log_size(clusters: Clusters, weights: Scaled) -> Figure:
    """The same with its interval."""
    return answered(ask_log_size(clusters, weights))[0]


def ask_log_ratios(clusters: Clusters, *asked: tuple[Scaled, Scaled, str]) -> list[Asked]:
    """Sum of weights [N] over the sum of others, and why it is absent where there is no whole."""
    tops = [max(part.top, whole.top) for part, whole, _ in asked]
    places = [(of, top) for (part, whole, _), top in zip(asked, tops, strict=True) for of in (part, whole)]
    sums = sums_over(clusters, places)
    return [
        Asked(Figure.absent(why))
        if whole.log_sum == -math.inf
        else Asked(from_log(part.log_sum - whole.log_sum), quotient, sums[2 * place : 2 * place + 2])
        for place, (part, whole, why) in enumerate(asked)
    ]


def ask_part(clusters: Clusters, part: Array, whole: Scaled, why: str) -> Asked:
    """Share of the weights that are flagged [N]; 0 and 1 have no interval."""
    if whole.log_sum == -math.inf:
        return Asked(Figure.absent(why))
    weights = whole.values * part
    above = float(weights.sum())
    if above < _SMALLEST_SUM:
        found = from_log(Scaled(np.where(part, whole.logs, -math.inf)).log_sum - whole.log_sum)
    else:
        found = from_log(whole.top + math.log(above) - whole.log_sum)
    if _is_certain(found):
        return Asked(found)
    return Asked(found, quotient, [clusters.sums(weights), *sums_over(clusters, [(whole, whole.top)])])


def sums_over(clusters: Clusters, asked: Sequence[tuple[Scaled, float]]) -> list[Array]:
    """Sums over blocks [B] of weights over exp(top), which is at least the largest, of each.

    Those over their own top are kept for the next recipe.
    """
    held = [weights.sums(clusters) if top == weights.top else None for weights, top in asked]
    new = [weights.over(top) for (weights, top), sums in zip(asked, held, strict=True) if sums is None]
    summed = iter(clusters.sums_of(new))
    found = [next(summed) if sums is None else sums for sums in held]
    for (weights, top), sums in zip(asked, found, strict=True):
        if top == weights.top:
            weights.keep(clusters, sums)
    return found


def _is_certain(found: Figure) -> bool:
    return found.value in (0.0, 1.0)
