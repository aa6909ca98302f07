"""Reductions over a ragged layout: one value per rollout from one value per token, and back.

A rollout's result depends on its own tokens only, never on its neighbours in the batch: on a CPU same tokens, same
bits. There compiled loops reduce, elsewhere torch on the device of the layout.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from iscope.replay import reductions

Array = np.ndarray[Any, Any]


def on_cpu(values: Tensor) -> bool:
    """Whether NumPy can read a tensor."""
    return values.device.type == "cpu"


def expm1(values: Tensor) -> Tensor:
    """exp(x) - 1, infinite where it overflows; NumPy's is twice as fast as torch's on a CPU."""
    if not on_cpu(values):
        return values.expm1()
    with np.errstate(over="ignore"):
        return torch.from_numpy(np.expm1(values.numpy()))


def sigmoid(values: Tensor) -> Tensor:
    """1 / (1 + exp(-x)); torch.sigmoid gives other bits to a value at another place of the tensor."""
    return 1 / (1 + (-values).exp())


def logaddexp(one: Tensor, other: Tensor) -> Tensor:
    """log(exp(x) + exp(y)); torch.logaddexp gives other bits to a value at another place of the tensor."""
    gap = (one - other).abs().nan_to_num(nan=0.0, posinf=float("inf"))
    return torch.maximum(one, other) + (-gap).exp().log1p()


class Segments:
    """N consecutive segments of P tokens; segment i is offsets[i]:offsets[i + 1]."""

    def __init__(self, offsets: Tensor) -> None:
        """Take int64 offsets [N + 1] that rise from 0 to P."""
        self.offsets = offsets

    @property
    def device(self) -> torch.device:
        """Where the layout lives, and the values of its tokens."""
        return self.offsets.device

    @property
    def rows(self) -> int:
        """N."""
        return self.offsets.numel() - 1

    @cached_property
    def tokens(self) -> int:
        """P."""
        return int(self.offsets[-1])

    @cached_property
    def lengths(self) -> Tensor:
        """int64 [N]."""
        return self.offsets[1:] - self.offsets[:-1]

    @cached_property
    def _edges(self) -> Array:
        return self.offsets.numpy()

    def sum(self, values: Tensor) -> Tensor:
        """Sum float64 values [P] over each segment; 0 for an empty one."""
        if not on_cpu(values):
            return torch.segment_reduce(values, "sum", offsets=self.offsets, initial=0.0, unsafe=True)
        found = torch.empty(self.rows, dtype=values.dtype)
        reductions.sums(found.numpy(), self._edges, values.numpy())
        return found

    def max(self, values: Tensor, empty: float = float("-inf")) -> Tensor:
        """Largest value of each segment; an empty one has ``empty``."""
        found = self._extreme("max", values, float("-inf"))
        return found if empty == float("-inf") else found.masked_fill(self.lengths == 0, empty)

    def min(self, values: Tensor) -> Tensor:
        """Smallest value of each segment; infinite where it is empty."""
        return self._extreme("min", values, float("inf"))

    def mean(self, values: Tensor) -> Tensor:
        """Mean of float64 values over each segment; 0 for an empty one."""
        return self.sum(values) / self.lengths.clamp(min=1)

    def count(self, flags: Tensor) -> Tensor:
        """Count the set flags [P] of each segment, int64 [N]."""
        if not on_cpu(flags):
            return self.sum(flags.double()).long()
        found = torch.empty(self.rows, dtype=torch.int64)
        reductions.counts(found.numpy(), self._edges, flags.numpy())
        return found

    def row_of(self, positions: Tensor) -> Tensor:
        """Row of each token position, int64."""
        return torch.searchsorted(self.offsets, positions, right=True) - 1

    def expand(self, rows: Tensor) -> Tensor:
        """Repeat one value per segment [N] for each of its tokens [P]."""
        return torch.repeat_interleave(rows, self.lengths, output_size=self.tokens)

    def select(self, places: Tensor) -> Segments:
        """Return the layout that is left when only the tokens at these places stay, int64 in rising order."""
        if not on_cpu(places):
            return Segments(torch.searchsorted(places, self.offsets))
        return Segments(torch.from_numpy(places.numpy().searchsorted(self._edges)))

    def _extreme(self, how: Literal["max", "min"], values: Tensor, empty: float) -> Tensor:
        if not on_cpu(values):
            return torch.segment_reduce(values, how, offsets=self.offsets, initial=empty, unsafe=True)
        found = torch.empty(self.rows, dtype=values.dtype)
        array = values.numpy()
        reduce = reductions.largest if how == "max" else reductions.smallest
        reduce(found.numpy(), self._edges, array, array.dtype.type(empty))
        return found
