"""Token columns of a batch of which only some tokens are meant: each is gathered when it is first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from iscope.replay.segments import on_cpu


@dataclass
class Gathered:
    """P tokens of columns that hold more.

    Attributes:
        columns: by name, as they are [B].
        places: int64 [P], where in them the tokens stand, in rising order; None: all of them.
    """

    columns: Mapping[str, Tensor]
    places: Tensor | None = None
    _found: dict[str, Tensor] = field(default_factory=dict, repr=False)

    def __contains__(self, name: str) -> bool:
        """Whether there is such a column."""
        return name in self.columns

    def __getitem__(self, name: str) -> Tensor:
        """Return the values [P] of a column."""
        if self.places is None:
            return self.columns[name]
        if name not in self._found:
            self._found[name] = self.columns[name].index_select(0, self.places)
        return self._found[name]

    def get(self, name: str) -> Tensor | None:
        """Return the values [P] of a column, or None where there is none."""
        return self[name] if name in self.columns else None

    def take(self, positions: Tensor) -> Gathered:
        """Return some of the tokens only, int64 positions among the P in rising order."""
        return Gathered(self.columns, positions if self.places is None else self.places.index_select(0, positions))

    def run(self, start: int, stop: int) -> Gathered:
        """Return the tokens from ``start`` to before ``stop`` of the P, without a copy."""
        if self.places is None:
            return Gathered({name: column[start:stop] for name, column in self.columns.items()})
        found = {name: values[start:stop] for name, values in self._found.items()}
        return Gathered(self.columns, self.places[start:stop], found)


def places_of(flags: Tensor) -> Tensor:
    """Int64, where flags [B] are set; on a CPU NumPy's is several times as fast as torch's."""
    if not on_cpu(flags):
        return flags.nonzero().squeeze(1)
    return torch.from_numpy(flags.numpy().nonzero()[0])
