"""min, mean, max, std, quantiles and the share outside [1/2, 2] of ratios or weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from iscope.analysis.numbers import NO_TOKENS, Array, figure, from_log, log_sum_exp, quantile, share
from iscope.ledger import histogram
from iscope.ledger.histogram import Counts
from iscope.model import Figure, Figures

QUANTILES = {"p0_1": 0.001, "p1": 0.01, "p50": 0.5, "p99": 0.99, "p99_9": 0.999}
_UNCOUNTED = "not counted where weights are divided by the batch's mean"
_NO_HISTOGRAM = "token quantiles are kept for the whole dump only"


@dataclass(frozen=True)
class Moments:
    """Sums over ``count`` weights w: of w and w^2, and, for those close to 1, of w - 1 and (w - 1)^2."""

    count: int
    weight: float
    weight_sq: float
    excess: float
    excess_sq: float

    def mean(self) -> Figure:
        """Mean weight."""
        return share(self.weight, self.count)

    def std(self) -> Figure:
        """Population standard deviation, from the moments that keep their digits."""
        if not self.count:
            return Figure.absent(NO_TOKENS)
        small = self.weight < self.count / 2
        first, second = (self.weight, self.weight_sq) if small else (self.excess, self.excess_sq)
        return figure(math.sqrt(max(0.0, second / self.count - (first / self.count) ** 2)))

    def effective_size(self) -> float:
        """(sum w)^2 / sum w^2; 0 when all weights are 0."""
        return self.weight / self.weight_sq * self.weight if self.weight_sq > 0 else 0.0


def rollout_summary(logs: Array) -> Figures:
    """Summarise one ratio or weight per rollout, given by its log [N]; -inf is a weight of 0."""
    if not logs.size:
        return _absent("no rollouts with scored tokens")
    ordered = np.sort(logs)
    near = np.exp(np.clip(logs, -1.0, 1.0))
    return {
        "min": from_log(float(ordered[0])),
        "mean": from_log(log_sum_exp(logs) - math.log(logs.size)),
        "max": from_log(float(ordered[-1])),
        "std": _std(logs),
        **{name: from_log(quantile(ordered, at)) for name, at in QUANTILES.items()},
        "outside_half_two": share(int(((near < 0.5) | (near > 2.0)).sum()), logs.size),
    }


def _std(logs: Array) -> Figure:
    """Population standard deviation of exp(logs), from moments about 1 and scaled where the squares would overflow."""
    top = max(float(logs.max()), 0.0)
    if top < 300.0:
        excess = np.expm1(logs)
        return figure(math.sqrt(max(0.0, float(np.mean(excess**2)) - float(np.mean(excess)) ** 2)))
    scaled = np.exp(logs - top)
    spread = float(np.std(scaled))
    return from_log(top + math.log(spread)) if spread > 0 else Figure(0.0)


def token_summary(
    *,
    moments: Moments,
    log_range: tuple[Array, Array],
    outside: int | None,
    counts: Counts | None,
    shift: float = 0.0,
) -> Figures:
    """Summarise one ratio or weight per token.

    Args:
        moments: sums of them.
        log_range: smallest and largest log of each rollout.
        outside: tokens with w below 1/2 or above 2; None where they were not counted.
        counts: histogram of log w, if there is one for these tokens, but for the shift.
        shift: what is to be added to its log w, nats: minus the log of the mean that weights are divided by.
    """
    if not moments.count:
        return _absent(NO_TOKENS)
    lowest, highest = float(log_range[0].min()), float(log_range[1].max())
    return {
        "min": from_log(lowest),
        "mean": moments.mean(),
        "max": from_log(highest),
        "std": moments.std(),
        **{name: _histogram_quantile(counts, at, lowest, highest, shift) for name, at in QUANTILES.items()},
        "outside_half_two": Figure.absent(_UNCOUNTED) if outside is None else share(outside, moments.count),
    }


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
