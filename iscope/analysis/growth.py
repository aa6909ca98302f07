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

import numpy as np
import torch

from iscope.analysis.lengths import Lengths
from iscope.analysis.numbers import Array
from iscope.analysis.rows import Rows
from iscope.recipes.bounds import Band
from iscope.recipes.model import Level, Pair

_PRIOR_TOKENS = 8
_AT_ONCE = 2048  # values for which torch wakes no threads, which takes longer than to calculate them
_KINDS = 32  # kinds of rollouts, by noise, that stand for all of a bucket


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

    def at(self, lengths: Array) -> Grown:
        """Return what S is like of rollouts of each length [L], in scored tokens."""
        nearest = np.minimum(np.searchsorted(self.longest, lengths), self.longest.size - 1)
        kinds, counts, spans = self.kinds[nearest], self.counts[nearest], lengths.astype(np.float64)[:, None]
        share = kinds / self.variance if self.variance > 0 else np.ones_like(kinds)
        deviation = np.sqrt(np.maximum(kinds * spans, np.finfo(np.float64).tiny))
        return Grown(spans, self.drift * share * spans, deviation, counts)


@dataclass(frozen=True)
class Grown:
    """S of rollouts of L lengths and K kinds each.

    Attributes:
        spans: the lengths [L, 1], in scored tokens.
        mean: mean of S of each kind [L, K], nats.
        deviation: its standard deviation [L, K].
        counts: how many rollouts are of each kind [L, K].
    """

    spans: Array
    mean: Array
    deviation: Array
    counts: Array

    def chance(self, band: Band) -> Array:
        """Chance that a band on S or G holds for a rollout of each length [L]."""
        per = self.spans if band.level is Level.GEOMETRIC else 1.0
        inside = np.broadcast_to(self._below(band.high * per) - self._below(band.low * per), self.mean.shape)
        chances: Array = np.maximum(np.einsum("lk,lk->l", inside, self.counts) / self.counts.sum(axis=1), 0.0)
        return chances

    def _below(self, end: Array | float) -> Array | float:
        """Chance [L, K] to lie below the end of a band, which may be open there."""
        if np.isinf(end).all():
            return float(np.all(end > 0))
        return _normal((end - self.mean) / self.deviation)


def _kinds(ordered: Array) -> tuple[Array, Array]:
    """Mean and size of each part of a bucket's variances, which are in order; an empty part has the mean of all."""
    parts = np.array_split(ordered, _KINDS)
    sizes = np.array([part.size for part in parts])
    return np.array([(part if part.size else ordered).mean() for part in parts]), sizes


def _normal(values: Array) -> Array:
    """Distribution function of the standard normal."""
    flat = torch.from_numpy(values).reshape(-1)
    below = [torch.special.ndtr(flat[first : first + _AT_ONCE]) for first in range(0, values.size, _AT_ONCE)]
    return torch.cat(below).numpy().reshape(values.shape) if below else values
