"""The tokens of a block inside the screen, laid out so that sums by rollout and by bucket of q are one pass."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from iscope.replay.segments import Array, Segments

Places = np.ndarray[Any, np.dtype[np.int64]]

# Buckets of the probability q that the inference engine gave the sampled token.
EDGES = (0.1, 0.5, 0.9)
BUCKETS = len(EDGES) + 1


@dataclass(frozen=True)
class Arranged:
    """Q tokens of N rollouts: by bucket, then by rollout, then in their order.

    Attributes:
        places: int64 [Q], where each stood before.
        segments: the layout, BUCKETS * N segments: those of the first bucket, then those of the second, ...
    """

    places: Places
    segments: Segments

    def take(self, column: Array) -> Array:
        """Return the values [Q] of a column of all tokens."""
        return column.take(self.places)

    def sum(self, values: Array) -> Array:
        """Sum float64 [Q] over each segment."""
        return self.segments.reduce(np.add, values, 0.0)


def bucket_of(inference: Array) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Bucket of each inference logprob [P]."""
    bucket = (inference >= math.log(EDGES[0])).view(np.uint8)
    for edge in EDGES[1:]:
        bucket += (inference >= math.log(edge)).view(np.uint8)
    return bucket


def arrange(inference: Array, offsets: Places, outside: Array) -> tuple[Arranged, Places]:
    """Lay out some tokens.

    Args:
        inference: float [P], nats.
        offsets: int64 [N + 1], the rollouts.
        outside: bool [P], the tokens to leave out.

    Returns:
        The others, and the places of those left out, in rising order.
    """
    code = np.maximum(bucket_of(inference), outside.view(np.uint8) * np.uint8(BUCKETS))
    order = code.argsort(kind="stable")  # of bytes: a radix sort
    rollouts, end = len(offsets) - 1, 0
    edges = np.empty(BUCKETS * rollouts + 1, dtype=np.int64)
    for bucket in range(BUCKETS):
        first, end = end, end + int(np.count_nonzero(code == bucket))
        edges[bucket * rollouts : (bucket + 1) * rollouts] = order[first:end].searchsorted(offsets[:-1]) + first
    edges[-1] = end
    return Arranged(order[:end], Segments(torch.from_numpy(edges))), order[end:]
