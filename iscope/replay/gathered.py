"""Token columns of a batch of which only some tokens are meant: each is gathered when it is first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from iscope.replay import chosen
from iscope.replay.segments import Segments, on_cpu


@dataclass
class Gathered:
    """P tokens of columns that hold more.

    Attributes:
        columns: by name, as they are [B].
        which: the tokens that are meant: bool flags [B] or int64 places [P] in rising order; None: all.
    """

    columns: Mapping[str, Tensor] | Gathered
    which: Tensor | None = None
    _found: dict[str, Tensor] = field(default_factory=dict, repr=False)

    def __contains__(self, name: str) -> bool:
        """Whether there is such a column."""
        return name in self.columns

    def __getitem__(self, name: str) -> Tensor:
        """Return the values [P] of a column."""
        if self.which is None:
            return self.columns[name]
        if name not in self._found:
            self._found[name] = _some(self.columns[name], self.which)
        return self._found[name]

    def get(self, name: str) -> Tensor | None:
        """Return the values [P] of a column, or None where there is none."""
        return self[name] if name in self.columns else None

    def take(self, positions: Tensor) -> Gathered:
        """Return some of the tokens only, int64 positions among the P in rising order."""
        return Gathered(self, positions)

    @property
    def places(self) -> Tensor | None:
        """Where the tokens stand in the columns that were not gathered, int64 [P]; None: token by token."""
        outer = self.columns.places if isinstance(self.columns, Gathered) else None
        if outer is not None:
            found: Tensor = outer if self.which is None else outer[self.which]
            return found
        return self.which if self.which is None or self.which.dtype != torch.bool else places_of(self.which)


def _some(column: Tensor, which: Tensor) -> Tensor:
    if which.dtype != torch.bool:
        return column.index_select(0, which)
    if not on_cpu(column):
        return column[which]
    flags = which.numpy()
    found = torch.empty(int(np.count_nonzero(flags)) + 1, dtype=column.dtype)
    chosen.take(found.numpy(), column.numpy(), flags)
    return found[:-1]


def places_of(flags: Tensor) -> Tensor:
    """Int64, where flags [B] are set."""
    if not on_cpu(flags):
        return flags.nonzero().squeeze(1)
    found = torch.empty(flags.numel() + 1, dtype=torch.int64)
    count = chosen.places(found.numpy(), flags.numpy())
    return found[:count]


def segments_left(segments: Segments, flags: Tensor) -> Segments:
    """Return the layout that is left when only the tokens [B] whose flag is set stay."""
    if not on_cpu(flags):
        return segments.select(places_of(flags))
    found = torch.empty_like(segments.offsets)
    chosen.offsets_left(found.numpy(), segments.offsets.numpy(), flags.numpy())
    return Segments(found)
