"""Cuts: the value of a statistic above which a batch's tokens are rejected, so that the mean of the others is low.

Source: AReaL 1.0.4, m2_threshold (M2PO): sorted from the largest, the first token is found from which on the mean is
below the threshold; those before it go, or all but the last where there is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from iscope.replay.segments import Segments


@dataclass(frozen=True)
class Cuts:
    """Where the batch of each of N rollouts is cut.

    Attributes:
        value: float64 [N]; larger statistics are rejected; infinity where nothing is.
        ties: int64 [N], how many of the rollout's tokens at just this value are rejected too: the first ones.
    """

    value: Tensor
    ties: Tensor

    def to(self, device: torch.device) -> Cuts:
        """Return them on a device."""
        return Cuts(self.value.to(device), self.ties.to(device))

    def __getitem__(self, rows: slice | Tensor) -> Cuts:
        """Return those of some rollouts."""
        return Cuts(self.value[rows], self.ties[rows])


def above(values: Tensor, segments: Segments, cuts: Cuts) -> Tensor:
    """Bool [P], the statistics [P] that a cut rejects."""
    value = segments.expand(cuts.value)
    tied = values == value
    running = torch.zeros(segments.tokens + 1, dtype=torch.int64, device=segments.device)
    torch.cumsum(tied, 0, out=running[1:])
    rank = running[1:] - segments.expand(running[segments.offsets[:-1]])
    return (values > value) | (tied & (rank <= segments.expand(cuts.ties)))


@dataclass
class BatchCuts:
    """Collects the statistics of a dump, rollouts in its order, and finds the cut of every batch, on the CPU.

    A token below the bound is never rejected: of those the sum is enough.

    Attributes:
        bound: what the mean of a batch's kept statistics must stay below.
    """

    bound: float
    _large: list[Tensor] = field(default_factory=lambda: [torch.zeros(0, dtype=torch.float64)])
    _rows: list[Tensor] = field(default_factory=lambda: [torch.zeros(0, dtype=torch.int64)])
    _places: list[Tensor] = field(default_factory=lambda: [torch.zeros(0, dtype=torch.int64)])
    _small_sum: list[Tensor] = field(default_factory=lambda: [torch.zeros(0, dtype=torch.float64)])
    _small_count: list[Tensor] = field(default_factory=lambda: [torch.zeros(0, dtype=torch.int64)])
    _rollouts: int = 0

    def add(self, values: Tensor, segments: Segments, places: Tensor) -> None:
        """Add N rollouts.

        Args:
            values: float64 [P], the statistic of their tokens.
            segments: their layout.
            places: int64 [N], the batch that each belongs to.
        """
        large = values >= self.bound
        where = large.nonzero().squeeze(1)
        self._large.append(values[where].cpu())
        self._rows.append(segments.row_of(where).cpu() + self._rollouts)
        self._places.append(places.cpu())
        self._small_sum.append(segments.sum(values.masked_fill(large, 0.0)).cpu())
        self._small_count.append((segments.lengths - segments.count(large)).cpu())
        self._rollouts += segments.rows

    def cuts(self) -> Cuts:
        """Return where the batch of each rollout added is cut."""
        places = torch.cat(self._places)
        value, tied = torch.full((self._rollouts,), math.inf, dtype=torch.float64), torch.zeros_like(places)
        values, rows = torch.cat(self._large), torch.cat(self._rows)
        small = torch.cat(self._small_sum), torch.cat(self._small_count)
        for place in torch.unique(places[rows]):
            members, inside = places == place, places[rows] == place
            rest = float(small[0][members].sum()), int(small[1][members].sum())
            cut, ties = _cut(values[inside], *rest, self.bound)
            value[members] = cut
            first = rows[inside][values[inside] == cut][:ties]
            tied += torch.bincount(first, minlength=self._rollouts)
        return Cuts(value, tied)


def _cut(large: Tensor, rest: float, count: int, bound: float) -> tuple[float, int]:
    """The value of the last statistic that is rejected, and how many of its equals are.

    Args:
        large: float64, the batch's statistics that are not below the bound, at least one.
        rest: sum of the others.
        count: how many others there are.
        bound: what the mean of those kept must stay below.
    """
    ordered = large.sort(descending=True).values
    sums = rest + ordered.flip(0).cumsum(0).flip(0)
    counts = count + torch.arange(ordered.numel(), 0, -1)
    low_enough = (sums / counts < bound).nonzero()
    every = ordered.numel() if count else ordered.numel() - 1
    rejected = int(low_enough[0]) if low_enough.numel() else every
    if not rejected:
        return math.inf, 0
    cut = float(ordered[rejected - 1])
    return cut, rejected - int((ordered > cut).sum())
