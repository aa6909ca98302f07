"""exp(x) - 1 - x of tensors, which loses no digits where x is small."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from iscope.replay.compiled import compiled
from iscope.replay.exponential import TERMS, expm1_and_rest
from iscope.replay.segments import on_cpu

_REDUCED = math.log(2) / 2


def exp_rest(values: Tensor) -> Tensor:
    """exp(x) - 1 - x of each x, float64 of any shape, on any device; x is held within +-700.

    Near 0 the difference of exp(x) - 1 and x has no digits left, and is all of k3: there its own series is summed.
    """
    if on_cpu(values):
        found = torch.empty_like(values)
        _fill_rest(found.numpy().reshape(-1), values.numpy().reshape(-1))
        return found
    rest = torch.full_like(values, TERMS[-1])
    for term in reversed(TERMS[2:-1]):
        rest = rest * values + term
    return torch.where(values.abs() <= _REDUCED, rest * values * values, values.expm1() - values)


@compiled()
def _fill_rest(found: Any, values: Any) -> None:
    for place in range(len(values)):
        found[place] = expm1_and_rest(values[place])[1]
