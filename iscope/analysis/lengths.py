"""Lengths of rollouts in buckets: powers of two, with enough rollouts in each for a share of them to say something."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iscope.analysis.numbers import Array

# Rollouts of which a share has a standard error of at most 0.05, so that it can be told from a chance that is 0.1 off;
# a bucket with fewer is joined with the next longer one.
_FEWEST = 100
# Lengths that stand for all of a bucket.
_SOME = 32


@dataclass(frozen=True)
class Lengths:
    """N rollouts in B buckets of lengths, in scored tokens.

    Attributes:
        of: the bucket of each rollout [N].
        ends: shortest and longest length of each bucket [B].
        some: lengths that stand for those of each bucket's rollouts.
    """

    of: Array
    ends: tuple[tuple[int, int], ...]
    some: tuple[Array, ...]

    @classmethod
    def among(cls, n: Array) -> Lengths:
        """Put lengths [N], at least one, into buckets."""
        octave = np.frexp(n.astype(np.float64))[1]
        joined = _joined(np.bincount(octave))[octave]
        lengths = _sorted_by(joined, n)
        ends = tuple((int(found[0]), int(found[-1])) for found in lengths)
        return cls(joined, ends, tuple(_some(found) for found in lengths))

    @property
    def buckets(self) -> int:
        """B."""
        return len(self.ends)

    def sorted(self, values: Array) -> list[Array]:
        """Values [N] in rising order, bucket by bucket."""
        return _sorted_by(self.of, values)


def _sorted_by(bucket: Array, values: Array) -> list[Array]:
    # A stable sort of small integers counts them, which is quicker than to look for each.
    order = np.argsort(bucket.astype(np.uint8), kind="stable")
    return [np.sort(part) for part in np.split(values[order], np.cumsum(np.bincount(bucket))[:-1])]


def _some(ordered: Array) -> Array:
    middles = (np.arange(_SOME) + 0.5) / _SOME
    places = (middles * ordered.size).astype(np.int64)
    found: Array = ordered[places if ordered.size > _SOME else slice(None)]
    return found


def _joined(counts: Array) -> Array:
    """The bucket of each octave; one with few rollouts goes with the next longer one, the last with the one before."""
    found, bucket, rollouts = np.zeros(counts.size, dtype=np.int64), 0, 0
    for octave, count in enumerate(counts.tolist()):
        if rollouts >= _FEWEST:
            bucket, rollouts = bucket + 1, 0
        found[octave] = bucket
        rollouts += count
    return found if rollouts >= _FEWEST else np.minimum(found, max(bucket - 1, 0))
