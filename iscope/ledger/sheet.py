"""Float64 rows that the blocks of a batch are calculated in, one block after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

Rows = np.ndarray[Any, np.dtype[np.float64]]


class Sheet:
    """Memory that is written anew for every block: to ask for fresh pages costs more than the arithmetic on them."""

    def __init__(self, rows: int, tokens: int) -> None:
        """Hold up to so many rows of up to so many tokens."""
        self._cells = np.empty(rows * tokens)

    def rows(self, count: int, tokens: int) -> Rows:
        """Return float64 [count, tokens], contiguous, undefined; it is valid until the next call."""
        return self._cells[: count * tokens].reshape(count, tokens)
