"""exp(x), exp(x) - 1 and exp(x) - 1 - x in compiled loops, to the last bits of float64."""

from __future__ import annotations

import math

from iscope.replay.bits import bits_of, float64_of
from iscope.replay.compiled import compiled

_LOWEST, _HIGHEST = -700.0, 700.0  # beyond, exp(x) leaves the normal numbers of float64
_LOG2_E = 1 / math.log(2)
# ln 2 in two parts, the first with so few digits that a small integer times it is exact (Cody and Waite, 1980).
_LN2 = float.fromhex("0x1.62e42fee00000p-1")
_LN2_REST = float.fromhex("0x1.a39ef35793c76p-33")
# Adding it rounds a number to an integer, which then stands in the low bits.
_ROUNDER = 1.5 * 2.0**52
_BIAS, _MANTISSA = 1023, 52
# 1 / k! of the series; what is left out after it is 1e-17 of the sum at ln(2) / 2.
TERMS = tuple(1 / math.factorial(power) for power in range(14))


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
    rest = (TERMS[13] * left + TERMS[12]) * left + TERMS[11]
    rest = ((rest * left + TERMS[10]) * left + TERMS[9]) * left + TERMS[8]
    rest = ((rest * left + TERMS[7]) * left + TERMS[6]) * left + TERMS[5]
    rest = ((rest * left + TERMS[4]) * left + TERMS[3]) * left + TERMS[2]
    return float64_of((bits_of(shifted) + _BIAS) << _MANTISSA), left, rest * left * left
