"""The smallest and the largest log-ratio inside the screen, as integers: those are compared in lanes."""

from __future__ import annotations

from typing import Any

import numpy as np

from iscope.ledger.kernels.tokens import OUTSIDE
from iscope.replay.compiled import compiled

Array = np.ndarray[Any, Any]

_INTEGERS: dict[int, Any] = {4: np.int32, 8: np.int64}


class Extremes:
    """What was found of N rollouts, written block by block."""

    def __init__(self, rows: int, kind: np.dtype[np.floating[Any]]) -> None:
        """Take the number of rollouts and the type of the log-ratios."""
        self._kind, self._integer = kind, _INTEGERS[kind.itemsize]
        self._size = np.iinfo(self._integer).max
        self._edges = self._swapped(np.array([np.inf, -np.inf], dtype=kind).view(self._integer))
        self._keys = np.empty((2, rows), dtype=self._integer)

    def add(self, row: int, offsets: Array, codes: Array, log_ratio: Array) -> None:
        """Look at a block of rollouts, of which the first stands at ``row``."""
        bits = log_ratio.view(self._integer)
        find_extremes(self._keys, row, offsets, codes, bits, self._integer(self._size), self._edges)

    def finish(self) -> Array:
        """Return the smallest and the largest, float64 [2, N]; infinite where no token is inside."""
        found: Array = self._swapped(self._keys).view(self._kind).astype(np.float64)
        return found

    def _swapped(self, bits: Array) -> Array:
        """Numbers that rise as the floats do whose bits these are, and the other way round."""
        swapped: Array = np.where(bits < 0, bits ^ self._size, bits)
        return swapped


@compiled()
def find_extremes(keys: Any, row: int, offsets: Any, codes: Any, bits: Any, size: Any, edges: Any) -> None:
    """Write the smallest and the largest of each rollout of a block to [2, N].

    Args:
        keys: where to write integers that rise with the floats.
        row: where the first rollout of the block stands.
        offsets: the rollouts of the block.
        codes: of its tokens [P] (``iscope.ledger.kernels.tokens``).
        bits: the bits of their log-ratios, integers [P].
        size: all bits but the sign.
        edges: what to write where no token is inside.
    """
    for rollout in range(len(offsets) - 1):
        smallest, largest = edges[0], edges[1]
        for token in range(offsets[rollout], offsets[rollout + 1]):
            key = bits[token] ^ (size if bits[token] < 0 else (size ^ size))
            inside = codes[token] != OUTSIDE
            smallest = min(smallest, key if inside else edges[0])
            largest = max(largest, key if inside else edges[1])
        keys[0, row + rollout], keys[1, row + rollout] = smallest, largest
