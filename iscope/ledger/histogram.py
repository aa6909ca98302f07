"""The fixed grid on which token log-ratios are counted.

Bins are those of the float32 format itself: each power of two of abs(d) is cut into 128 equal bins, so an edge is
2^e * (1 + k / 128) and a bin is at most 0.8% of the value wide. abs(d) below 2^-20 falls into one bin around zero,
abs(d) of 2^14 and more into the last. Integer counts: the same whatever the batches, and they add up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from iscope.replay.segments import Array, on_cpu

_SHIFT = 16  # float32 has 23 mantissa bits; keeping 7 gives 128 bins per power of two
_FIRST = (127 - 20) << 7  # 2^-20
_LAST = (127 + 14) << 7  # 2^14
SIDE = _LAST - _FIRST  # bins on either side of the one around zero
SMALLEST = _FIRST - 1  # the upper half of the float32 bits of what still falls into the bin around zero

BINS = 2 * SIDE + 1
ZERO_WEIGHT = BINS  # one more bin, for weights of exactly 0, whose log is no number
ZERO_BIN = SIDE

Counts = np.ndarray[Any, np.dtype[np.int64]]
Bins = np.ndarray[Any, np.dtype[np.int16]]


def bin_of(log_ratio: Array) -> Bins:
    """Bin of each log-ratio, nats, whatever the shape."""
    bits = log_ratio.astype(np.float32, copy=False).view(np.int32)
    index = (bits >> _SHIFT).astype(np.int16)  # sign, exponent and 7 bits: half the width, half the work
    sign = index >> 15  # 0, or -1 for a negative value
    index &= 0x7FFF
    np.clip(index, _FIRST - 1, _LAST - 1, out=index)
    index -= _FIRST - 1
    index ^= sign
    index -= sign  # x ^ -1 is -x - 1
    index += ZERO_BIN
    return index


def bins_of(log_ratio: Tensor) -> Tensor:
    """The same of a tensor [P] on any device, an integer tensor there."""
    if on_cpu(log_ratio):
        with np.errstate(over="ignore"):  # a sum over unscored tokens can be larger than a float32
            return torch.from_numpy(bin_of(log_ratio.numpy()))
    bits = log_ratio.float().view(torch.int32)
    index = ((bits & 0x7FFFFFFF) >> _SHIFT).clamp(_FIRST - 1, _LAST - 1) - (_FIRST - 1)
    return torch.where(bits < 0, -index, index) + ZERO_BIN


def count(bins: Bins | Tensor) -> Counts:
    """Count entries per bin; torch's bincount lets other threads run, NumPy's does not."""
    found = bins if isinstance(bins, Tensor) else torch.from_numpy(bins)
    counts: Counts = torch.bincount(found, minlength=BINS + 1).cpu().numpy()
    return counts


def edges(index: int) -> tuple[float, float]:
    """Lower and upper edge of a bin, nats."""
    if index == ZERO_BIN:
        return -(2.0**-20), 2.0**-20
    step = abs(index - ZERO_BIN)
    inner, outer = _magnitude(step - 1), _magnitude(step)
    return (inner, outer) if index > ZERO_BIN else (-outer, -inner)


def middles(indices: Array) -> Array:
    """Middle of each of some bins, nats, float64; 0 of the one around zero."""
    step = indices - ZERO_BIN
    outer = _magnitudes(np.abs(step))
    inner = np.where(step == 0, -outer, _magnitudes(np.abs(step) - 1))
    return np.asarray(np.sign(step) * (inner + outer) / 2)


def _magnitudes(steps: Array) -> Array:
    bits = ((_FIRST + steps) << _SHIFT).astype(np.int32)
    return bits.view(np.float32).astype(np.float64)


def _magnitude(step: int) -> float:
    return float(_magnitudes(np.array([step]))[0])


def quantile_bin(counts: Counts, share: float) -> int:
    """Bin that holds the quantile (inverted CDF); ZERO_WEIGHT when it is a weight of zero.

    Args:
        counts: a histogram with at least one entry.
        share: between 0 and 1.
    """
    total = int(counts.sum())
    rank = max(1, int(np.ceil(share * total)))
    zeros = int(counts[ZERO_WEIGHT])
    if rank <= zeros:
        return ZERO_WEIGHT
    return int(np.searchsorted(np.cumsum(counts[:BINS]), rank - zeros))
