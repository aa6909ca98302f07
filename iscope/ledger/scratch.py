"""Memory that the blocks of a batch are calculated in, one block after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Scratch:
    """Columns that are written anew for every block: fresh pages cost more than the arithmetic on them."""

    def __init__(self, tokens: int) -> None:
        """Hold columns of up to so many tokens."""
        self._tokens = tokens
        self._columns: dict[str, Array] = {}

    def column(self, name: str, kind: type[np.generic], tokens: int) -> Array:
        """Return the column of a name [P], undefined; it is valid until it is asked for again."""
        if name not in self._columns:
            self._columns[name] = np.empty(self._tokens, dtype=kind)
        return self._columns[name][:tokens]
