"""min, mean, max, std, quantiles and the share outside [1/2, 2] of ratios or weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from iscope.analysis.intervals import Clusters, fraction, ratio, size_of
from iscope.analysis.numbers import NO_TOKENS, Array, Scaled, figure, from_log, read_only, share
from iscope.analysis.order_statistics import at_ranks, rank_of
from iscope.ledger import histogram
from iscope.ledger.histogram import Counts
from iscope.model import Figure, Figures
from iscope.replay.compiled import LANES, compiled
from iscope.replay.exponential import expm1_and_rest

QUANTILES = {"p0_1": 0.001, "p1": 0.01, "p50": 0.5, "p99": 0.99, "p99_9": 0.999}
_LOG_TWO = math.log(2.0)
_LARGEST_SQUARED = 300.0
_UNCOUNTED = "not counted where weights are divided by the batch's mean"
_NO_HISTOGRAM = "token quantiles are kept for the whole dump only"


@dataclass(frozen=True)
class Moments:
    """Sums over each rollout's weights w [N].

    Attributes:
        clusters: what is resampled for the intervals of their figures.
        count: how many there are.
        weight: sum of w.
        weight_sq: sum of w^2.
        excess: sum of w - 1, which keeps the digits of those close to 1.
        excess_sq: sum of (w - 1)^2.
    """

    clusters: Clusters
    count: Array
    weight: Array
    weight_sq: Array
    excess: Array
    excess_sq: Array

    def std(self) -> Figure:
        """Population standard deviation, from the moments that keep their digits."""
        count = int(self.count.sum())
        if not count:
            return Figure.absent(NO_TOKENS)
        small = self.weight.sum() < count / 2
        columns = (self.weight, self.weight_sq) if small else (self.excess, self.excess_sq)
        first, second = (float(column.sum()) for column in columns)
        return figure(math.sqrt(max(0.0, second / count - (first / count) ** 2)))

    def effective_size(self) -> tuple[Figure, Figure]:
        """(sum w)^2 / sum w^2, 0 when all weights are 0, and its share of their number."""
        weight, square, count = self.clusters.sums_of([self.weight, self.weight_sq, self.count])
        return size_of(weight, square, count)


def rollout_summary(weights: Scaled) -> Figures:
    """Summarise one ratio or weight per rollout [N]."""
    logs = weights.logs
    if not logs.size:
        return _absent("no rollouts with scored tokens")
    found = at_ranks(logs, *(rank_of(at, logs.size) for at in QUANTILES.values()))
    outside, *excess = excess_sums(read_only(logs, np.float64))
    return {
        "min": from_log(float(logs.min())),
        "mean": from_log(weights.log_sum - math.log(logs.size)),
        "max": from_log(weights.top),
        "std": _std(weights, *excess),
        **dict(zip(QUANTILES, map(from_log, found), strict=True)),
        "outside_half_two": share(outside, logs.size),
    }


def _std(weights: Scaled, first: float, second: float) -> Figure:
    """Population standard deviation, from sums of w - 1 and of its square, and scaled where these would overflow."""
    if weights.top < _LARGEST_SQUARED:
        return figure(math.sqrt(max(0.0, second / weights.logs.size - (first / weights.logs.size) ** 2)))
    spread = float(np.std(weights.values))
    return from_log(weights.top + math.log(spread)) if spread > 0 else Figure(0.0)


@compiled(LANES)
def excess_sums(logs: Any) -> tuple[int, float, float]:
    """How many weights w are below 1/2 or above 2, and the sums of w - 1 and of (w - 1)^2.

    Args:
        logs: their logs, float64 [N], read only.
    """
    outside, first, second = 0, 0.0, 0.0
    for row in range(len(logs)):
        excess = expm1_and_rest(logs[row])[0]
        first += excess
        second += excess * excess
        outside += abs(logs[row]) > _LOG_TWO
    return outside, first, second


def token_summary(
    *,
    moments: Moments,
    log_range: tuple[Array, Array],
    outside: Array | None,
    counts: Counts | None,
    shift: float = 0.0,
) -> Figures:
    """Summarise one ratio or weight per token.

    Args:
        moments: sums of them.
        log_range: smallest and largest log of each rollout.
        outside: tokens of each rollout with w below 1/2 or above 2; None where they were not counted.
        counts: histogram of log w, if there is one for these tokens, but for the shift.
        shift: what is to be added to its log w, nats: minus the log of the mean that weights are divided by.
    """
    if not moments.count.size:
        return _absent(NO_TOKENS)
    lowest, highest = float(log_range[0].min()), float(log_range[1].max())
    mean, beyond = _mean_and_outside(moments, outside)
    return {
        "min": from_log(lowest),
        "mean": mean,
        "max": from_log(highest),
        "std": moments.std(),
        **{name: _histogram_quantile(counts, at, lowest, highest, shift) for name, at in QUANTILES.items()},
        "outside_half_two": beyond,
    }


def _mean_and_outside(moments: Moments, outside: Array | None) -> tuple[Figure, Figure]:
    clusters, count = moments.clusters, moments.count
    counted = [] if outside is None else [outside]
    clusters.sums_of([count, moments.weight, moments.weight_sq, *counted])  # in one pass; then they are at hand
    beyond = Figure.absent(_UNCOUNTED) if outside is None else fraction(clusters, outside, count)
    return ratio(clusters, moments.weight, count), beyond


def _histogram_quantile(counts: Counts | None, at: float, lowest: float, highest: float, shift: float) -> Figure:
    if counts is None:
        return Figure.absent(_NO_HISTOGRAM)
    index = histogram.quantile_bin(counts, at)
    if index == histogram.ZERO_WEIGHT:
        return Figure(0.0)
    low, high = (edge + shift for edge in histogram.edges(index))
    middle = from_log(min(max((low + high) / 2, lowest), highest))
    if middle.value is None or high > math.log(np.finfo(np.float64).max):
        return middle
    return Figure(middle.value, log10=middle.log10, bin=(math.exp(low), math.exp(high)))


def _absent(why: str) -> Figures:
    names = ("min", "mean", "max", "std", *QUANTILES, "outside_half_two")
    return {name: Figure.absent(why) for name in names}
