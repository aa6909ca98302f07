"""Which bin of the histogram's grid each token falls into, and how many fall into each."""

from __future__ import annotations

from typing import Any

import numpy as np

from iscope.ledger.histogram import SIDE, SMALLEST, ZERO_BIN, ZERO_WEIGHT
from iscope.replay.compiled import compiled
from iscope.replay.exponential import expm1_and_rest

_SHIFT, _SIZE = 16, 0x7FFF


@compiled()
def fill_bins(bins: Any, bits: Any) -> None:
    """Write the bin of each value, int16 [P], from its float32 bits as int32 [P]."""
    for token in range(len(bits)):
        size = ((bits[token] >> _SHIFT) & _SIZE) - SMALLEST
        size = min(max(size, 0), SIDE)
        bins[token] = ZERO_BIN - size if bits[token] < 0 else ZERO_BIN + size


@compiled()
def fill_gaps(gaps: Any, inference: Any, log_ratio: Any) -> None:
    """Write abs(d) / (1 - q) of each token: float32 [P] from [P]."""
    for token in range(len(gaps)):
        excess, _ = expm1_and_rest(np.float64(inference[token]))
        gaps[token] = np.float32(abs(np.float64(log_ratio[token])) / -excess)


@compiled()
def clear_certain(bins: Any, inference: Any, below: Any) -> None:
    """Put the tokens whose inference logprob [P] is not below a limit into the bin ``ZERO_WEIGHT``."""
    for token in range(len(bins)):
        bins[token] = bins[token] if inference[token] < below else ZERO_WEIGHT


@compiled()
def count(counts: Any, bins: Any) -> None:
    """Add tokens to int64 [2, BINS + 1], in turns, so that an entry need not wait for the one before it."""
    for token in range(len(bins)):
        counts[token & 1, bins[token]] += 1
