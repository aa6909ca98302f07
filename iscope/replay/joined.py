"""Token columns of several batches as one: what is done to few tokens of each costs less together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from iscope.replay.gathered import Gathered


@dataclass
class Joined:
    """P tokens of columns that stand in several parts; they are put together when they are first asked for.

    Attributes:
        parts: the columns, alike in each.
        edges: where each part begins among the P, and P.
    """

    parts: Sequence[Gathered | Joined]
    edges: Sequence[int]
    _found: dict[str, Tensor] = field(default_factory=dict, repr=False)

    def __contains__(self, name: str) -> bool:
        """Whether there is such a column."""
        return name in self.parts[0]

    def __getitem__(self, name: str) -> Tensor:
        """Return the values [P] of a column."""
        if name not in self._found:
            self._found[name] = torch.cat([part[name] for part in self.parts])
        return self._found[name]

    def get(self, name: str) -> Tensor | None:
        """Return the values [P] of a column, or None where there is none."""
        return self[name] if name in self.parts[0] else None

    def take(self, positions: Tensor) -> Joined:
        """Return some of the tokens only, int64 positions among the P in rising order."""
        inner = torch.searchsorted(positions, torch.tensor(self.edges)).tolist()
        cuts = zip(self.parts, self.edges, inner, inner[1:], strict=False)
        return Joined([part.take(positions[a:b] - start) for part, start, a, b in cuts], inner)

    @property
    def places(self) -> Tensor | None:
        """Where the tokens stand in the columns that were not gathered, part after part, int64 [P]."""
        found, start = [], 0
        for part, first, last in zip(self.parts, self.edges, self.edges[1:], strict=False):
            places = torch.arange(last - first) if part.places is None else part.places
            found.append(places + start)
            start += int(places[-1]) + 1 if last > first else 0
        return torch.cat(found)
