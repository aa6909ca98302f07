"""The smallest and the largest log-ratio inside the screen, as integers: those are compared in lanes."""

from __future__ import annotations

from typing import Any

import numpy as np

from iscope.ledger.kernels.tokens import OUTSIDE
from iscope.replay.bits import bits_of
from iscope.replay.compiled import compiled, tokens_of

Array = np.ndarray[Any, Any]

_ALL_BUT_SIGN = np.iinfo(np.int64).max


def _swapped(bits: Array) -> Array:
    """Integers that rise as the float64 do whose bits these are, and the other way round."""
    return np.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits)


_NONE_LOW, _NONE_HIGH = _swapped(np.array([np.inf, -np.inf]).view(np.int64)).tolist()


def extremes_of(keys: Array) -> Array:
    """Return the numbers, float64, that integers of any shape stand for."""
    found: Array = _swapped(keys).view(np.float64)
    return found


@compiled()
def find_extremes(keys: Any, row: int, offsets: Any, codes: Any, log_ratio: Any) -> None:
    """Write what stands for the smallest and the largest d inside of each rollout of a block; infinite where none is.

    Args:
        keys: where to write, int64 [2, N].
        row: where the first rollout of the block stands.
        offsets: the rollouts of the block.
        codes: of its tokens [P] (``iscope.ledger.kernels.tokens``).
        log_ratio: d [P], nats.
    """
    for rollout in range(len(offsets) - 1):
        smallest, largest = _NONE_LOW, _NONE_HIGH
        for token in tokens_of(offsets, rollout):
            bits = bits_of(np.float64(log_ratio[token]))
            key = bits ^ _ALL_BUT_SIGN if bits < 0 else bits
            inside = codes[token] != OUTSIDE
            smallest = min(smallest, key if inside else _NONE_LOW)
            largest = max(largest, key if inside else _NONE_HIGH)
        keys[0, row + rollout], keys[1, row + rollout] = smallest, largest
