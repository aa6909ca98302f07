"""Which bin of the histogram's grid each token falls into, and how many fall into each."""

from __future__ import annotations

from typing import Any

import numpy as np

from iscope.ledger.histogram import SIDE, SMALLEST, ZERO_BIN, ZERO_WEIGHT
from iscope.replay.bits import bits_of
from iscope.replay.compiled import compiled
from iscope.replay.exponential import expm1_and_rest

_SHIFT, _SIZE = 16, 0x7FFF


@compiled()
def fill_bins(bins: Any, values: Any) -> None:
    """Write the bin of each value, int16 [P]."""
    for token in range(len(values)):
        bins[token] = bin_of_value(values[token])


@compiled()
def bin_of_value(value: Any) -> Any:
    """The bin of a value."""
    bits = bits_of(np.float32(value))
    size = ((bits >> _SHIFT) & _SIZE) - SMALLEST
    size = min(max(size, 0), SIDE)
    return ZERO_BIN - size if bits < 0 else ZERO_BIN + size


@compiled()
def fill_gap_bins(bins: Any, inference: Any, log_ratio: Any, certain: Any) -> None:
    """Write the bin of abs(d) / (1 - q) of each token, int16 [P], or ``ZERO_WEIGHT`` from a logprob of q on.

    Args:
        bins: where to write.
        inference: logprobs [P], nats.
        log_ratio: of trainer over inference [P], nats.
        certain: the logprob from which on 1 - q is all rounding.
    """
    for token in range(len(bins)):
        excess, _ = expm1_and_rest(np.float64(inference[token]))
        bits = bits_of(np.float32(abs(np.float64(log_ratio[token])) / -excess))
        size = ((bits >> _SHIFT) & _SIZE) - SMALLEST
        bins[token] = ZERO_BIN + min(max(size, 0), SIDE) if inference[token] < certain else ZERO_WEIGHT


@compiled()
def count(counts: Any, bins: Any) -> None:
    """Add tokens to int64 [2, BINS + 1], in turns, so that an entry need not wait for the one before it."""
    for token in range(len(bins)):
        counts[token & 1, bins[token]] += 1
