"""Figures with intervals: each is defined once, as a function of sums, for the dump and for every replicate of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from iscope.analysis.intervals.bootstrap import FEWEST_CLUSTERS, ROUNDING, Ends, Statistic, intervals
from iscope.analysis.intervals.clusters import Clusters
from iscope.analysis.numbers import NO_TOKENS, Array, Scaled, exp_of, figure, from_log
from iscope.model import Figure


def bounded(found: Figure, clusters: Clusters, statistic: Statistic, columns: Sequence[Array]) -> Figure:
    """Return a figure with the interval of the statistic of its columns' sums, where there is one.

    Args:
        found: the figure.
        clusters: what is resampled.
        statistic: the figure as a function of as many arrays of sums as there are columns.
        columns: per rollout [N].
    """
    if not _may_be_bounded(found) or clusters.count < FEWEST_CLUSTERS:
        return found
    return over_blocks(found, statistic, [clusters.sums(column) for column in columns])


def over_blocks(found: Figure, statistic: Statistic, sums: Sequence[Array]) -> Figure:
    """The same of columns given by their sums over blocks [B]."""
    return with_ends(found, intervals(np.stack(sums)[:, None], statistic)[0])


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


def ratio(clusters: Clusters, part: Array, whole: Array, why: str = NO_TOKENS) -> Figure:
    """Sum of a column [N] over the sum of another; absent where that is 0."""
    below = whole.sum()
    if not below:
        return Figure.absent(why)
    return bounded(figure(float(part.sum() / below)), clusters, quotient, (part, whole))


def fraction(clusters: Clusters, part: Array, whole: Array, why: str = NO_TOKENS) -> Figure:
    """Share of counts; 0 and 1 have no interval: a sample without the event does not tell how rare it is."""
    below = whole.sum()
    if not below:
        return Figure.absent(why)
    found = figure(float(part.sum() / below))
    return found if _is_certain(found) else bounded(found, clusters, quotient, (part, whole))


def size(clusters: Clusters, weight: Array, square: Array, count: Array, why: str = NO_TOKENS) -> tuple[Figure, Figure]:
    """Kish's effective sample size of weights, and its share of their number, from sums of w, w^2 and 1 [N].

    The size is 0 when all weights are 0.
    """
    whole, any_weight = float(count.sum()), bool(square.sum() > 0)
    value = float(kish(weight.sum(), square.sum())) if any_weight else 0.0
    found = bounded(figure(value), clusters, kish, (weight, square))
    if not whole:
        return found, Figure.absent(why)
    return found, bounded(figure(value / whole), clusters, kish_share, (weight, square, count))


def log_size(clusters: Clusters, weights: Scaled) -> Figure:
    """Kish's effective sample size of one weight per rollout; 0 when all are 0."""
    values = weights.values
    square = values**2
    value = float(kish(values.sum(), square.sum())) if weights.top > -math.inf else 0.0
    return bounded(figure(value), clusters, kish, (values, square))


def log_ratio(clusters: Clusters, part: Scaled, whole: Scaled, why: str) -> Figure:
    """Sum of weights [N] over the sum of others; absent where there is no whole."""
    return _log_bounded(_log_ratio(part, whole, why), clusters, part, whole)


def _log_ratio(part: Scaled, whole: Scaled, why: str) -> Figure:
    return Figure.absent(why) if whole.log_sum == -math.inf else from_log(part.log_sum - whole.log_sum)


def _log_bounded(found: Figure, clusters: Clusters, part: Scaled, whole: Scaled) -> Figure:
    if not _may_be_bounded(found) or clusters.count < FEWEST_CLUSTERS:
        return found
    top = max(part.top, whole.top)
    return over_blocks(found, quotient, [_sums(clusters, weights, top) for weights in (part, whole)])


def _sums(clusters: Clusters, weights: Scaled, top: float) -> Array:
    """Sums over blocks of weights over exp(top); those over their own top are kept for the next recipe."""
    if top != weights.top:
        return clusters.sums(weights.over(top))
    return weights.once(clusters, lambda: clusters.sums(weights.values))


def scaled(*logs: Array) -> list[Array]:
    """Columns given by their logs [N], over the largest value of any."""
    top = max(float(column.max(initial=-math.inf)) for column in logs)
    return [exp_of(column - top) if top > -math.inf else np.zeros(column.size) for column in logs]


def log_fraction(clusters: Clusters, part: Scaled, whole: Scaled, why: str) -> Figure:
    """Share of a whole of weights [N]; 0 and 1 have no interval."""
    found = _log_ratio(part, whole, why)
    return found if _is_certain(found) else _log_bounded(found, clusters, part, whole)


def _is_certain(found: Figure) -> bool:
    return found.value in (0.0, 1.0)
