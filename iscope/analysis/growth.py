"""How the log-ratio of a rollout grows with its length: drift, noise, and the chance that a band still holds.

S of T tokens is taken to be normal with mean m T and variance v T: under the sampler its noise is a martingale, so
that variances add up. Rollouts differ in how noisy their tokens are (a certain token has hardly any noise), and drift
comes with noise: E exp(d) = 1 makes it -v / 2 where only noise separates the policies. So v is each rollout's own mean
square about the dump's mean, drawn towards that of the dump as if ``_PRIOR_TOKENS`` more tokens had it, m is in
proportion, and the chance at length T is the mean over the rollouts whose lengths are nearest. One normal for all
misses the shares that real dumps keep by up to 0.16 where rollouts differ much; a further drift of each rollout's own
fits fresh dumps no better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from iscope.analysis.lengths import Lengths
from iscope.analysis.normal import chance_below
from iscope.analysis.numbers import Array
from iscope.analysis.rows import Rows
from iscope.recipes.bounds import Band
from iscope.recipes.model import Level, Pair
from iscope.replay.compiled import compiled

_PRIOR_TOKENS = 8
_KINDS = 32  # kinds of rollouts, by noise, that stand for all of a bucket
_SMALLEST_VARIANCE = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Growth:
    """Drift and noise of the log-ratios of a dump.

    Attributes:
        drift: mean d, nats per token.
        variance: mean square of d about it, nats^2 per token.
        longest: the longest length of each bucket of lengths [B].
        kinds: variance per token of each of K kinds of a bucket's rollouts [B, K], by noise.
        counts: how many rollouts are of each kind [B, K]; 0 where a bucket has fewer kinds.
    """

    drift: float
    variance: float
    longest: Array
    kinds: Array
    counts: Array

    @classmethod
    def of(cls, rows: Rows, pair: Pair, lengths: Lengths) -> Growth:
        """Measure it; there must be rollouts."""
        n, total, squares = rows.n, rows.pair("log_ratio_sum", pair), rows.pair("log_ratio_sq", pair)
        drift = float(total.sum()) / rows.tokens
        centred = np.maximum(squares - 2 * drift * total + n * drift**2, 0.0)
        variance = float(centred.sum()) / rows.tokens
        own = (centred + _PRIOR_TOKENS * variance) / (n + _PRIOR_TOKENS)
        kinds, counts = zip(*(_kinds(ordered) for ordered in lengths.sorted(own)), strict=True)
        longest = np.array([longest for _, longest in lengths.ends])
        return cls(drift, variance, longest, np.array(kinds), np.array(counts))

    @property
    def noise(self) -> float:
        """Standard deviation of d, nats."""
        return math.sqrt(self.variance)

    def chance(self, lengths: Array, band: Band) -> Array:
        """Chance that a band on S or G holds for a rollout of each length [L], int64, in scored tokens."""
        nearest = np.minimum(np.searchsorted(self.longest, lengths), self.longest.size - 1)
        found, of_mean = np.empty(len(lengths)), band.level is Level.GEOMETRIC
        fill_chances(
            found, lengths, nearest, self.kinds, self.counts, self.drift, self.variance, band.low, band.high, of_mean
        )
        return found


@compiled()
def fill_chances(
    found: Any,
    lengths: Any,
    nearest: Any,
    kinds: Any,
    counts: Any,
    drift: float,
    variance: float,
    low: float,
    high: float,
    of_mean: bool,
) -> None:
    """Write the chance that bounds hold at each length, see ``Growth``.

    Args:
        found: where to write, float64 [L].
        lengths: in scored tokens, int64 [L].
        nearest: the bucket of each, int64 [L].
        kinds: variance per token by bucket and kind, float64 [B, K].
        counts: rollouts by bucket and kind, int64 [B, K].
        drift: nats per token.
        variance: nats^2 per token.
        low: nats, or -inf.
        high: nats, or inf.
        of_mean: whether bounds are on G, not on S.
    """
    drifts, steepness = np.empty(kinds.shape), np.empty(kinds.shape)
    for bucket in range(kinds.shape[0]):
        for kind in range(kinds.shape[1]):
            own = kinds[bucket, kind]
            drifts[bucket, kind] = drift * (own / variance if variance > 0.0 else 1.0)
            steepness[bucket, kind] = 1.0 / math.sqrt(max(own, _SMALLEST_VARIANCE))
    for at in range(len(lengths)):
        span, bucket = float(lengths[at]), nearest[at]
        per, narrower = span if of_mean else 1.0, 1.0 / math.sqrt(span)
        inside, rollouts = 0.0, 0
        for kind in range(kinds.shape[1]):
            mean, steep = drifts[bucket, kind] * span, steepness[bucket, kind] * narrower
            above = 1.0 if high == math.inf else chance_below((high * per - mean) * steep)
            below = 0.0 if low == -math.inf else chance_below((low * per - mean) * steep)
            inside += counts[bucket, kind] * (above - below)
            rollouts += counts[bucket, kind]
        found[at] = max(inside / rollouts, 0.0)


def _kinds(ordered: Array) -> tuple[Array, Array]:
    """Mean and size of each part of a bucket's variances, which are in order; an empty part has the mean of all."""
    parts = np.array_split(ordered, _KINDS)
    sizes = np.array([part.size for part in parts])
    return np.array([(part if part.size else ordered).mean() for part in parts]), sizes
