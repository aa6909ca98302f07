"""exp(x) - 1 and exp(x) - 1 - x to the last bits of float64: the latter loses none of them where x is small."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from iscope.replay.bits import bits_of, float64_of
from iscope.replay.compiled import compiled
from iscope.replay.segments import on_cpu

_LOWEST, _HIGHEST = -700.0, 700.0  # beyond, exp(x) leaves the normal numbers of float64
_LOG2_E = 1 / math.log(2)
# ln 2 in two parts, the first with so few digits that a small integer times it is exact (Cody and Waite, 1980).
_LN2 = float.fromhex("0x1.62e42fee00000p-1")
_LN2_REST = float.fromhex("0x1.a39ef35793c76p-33")
# Adding it rounds a number to an integer, which then stands in the low bits.
_ROUNDER = 1.5 * 2.0**52
_BIAS, _MANTISSA = 1023, 52
# 1 / k! of the series; what is left out after it is 1e-17 of the sum at ln(2) / 2.
_TERMS = tuple(1 / math.factorial(power) for power in range(14))
_REDUCED = math.log(2) / 2


def exp_rest(values: Tensor) -> Tensor:
    """exp(x) - 1 - x of each x, float64 of any shape, on any device; x is held within +-700.

    Near 0 the difference of exp(x) - 1 and x has no digits left, and is all of k3: there its own series is summed.
    """
    if on_cpu(values):
        found = torch.empty_like(values)
        _fill_rest(found.numpy().reshape(-1), values.numpy().reshape(-1))
        return found
    rest = torch.full_like(values, _TERMS[-1])
    for term in reversed(_TERMS[2:-1]):
        rest = rest * values + term
    return torch.where(values.abs() <= _REDUCED, rest * values * values, values.expm1() - values)


@compiled()
def _fill_rest(found: Any, values: Any) -> None:
    for place in range(len(values)):
        found[place] = expm1_and_rest(values[place])[1]


@compiled()
def expm1_and_rest(x: float) -> tuple[float, float]:
    """exp(x) - 1, and exp(x) - 1 - x without the cancellation near 0; x is held within +-700, NaN is not allowed."""
    value = min(max(x, _LOWEST), _HIGHEST)
    scale, left, rest = _parts(value)
    excess = scale * (left + rest) + (scale - 1.0)
    return excess, rest if scale == 1.0 else excess - value


@compiled()
def exp(x: float) -> float:
    """e to the power of x, to the last bits of float64; x is held within +-700, NaN is not allowed."""
    scale, left, rest = _parts(min(max(x, _LOWEST), _HIGHEST))
    found: float = scale + scale * (left + rest)
    return found


@compiled()
def _parts(value: float) -> tuple[float, float, float]:
    """Of exp(x): a power of two, what is left of x without its log, at most ln(2) / 2, and exp of that - 1 - itself."""
    shifted = value * _LOG2_E + _ROUNDER
    power = shifted - _ROUNDER
    left = (value - power * _LN2) - power * _LN2_REST
    rest = (_TERMS[13] * left + _TERMS[12]) * left + _TERMS[11]
    rest = ((rest * left + _TERMS[10]) * left + _TERMS[9]) * left + _TERMS[8]
    rest = ((rest * left + _TERMS[7]) * left + _TERMS[6]) * left + _TERMS[5]
    rest = ((rest * left + _TERMS[4]) * left + _TERMS[3]) * left + _TERMS[2]
    return float64_of((bits_of(shifted) + _BIAS) << _MANTISSA), left, rest * left * left
