"""The distribution function of the standard normal in compiled loops, to 1e-15."""

from __future__ import annotations

import math

import numpy as np

from iscope.replay.compiled import compiled

_FURTHEST = 9  # it is 1e-19 from 0 and 1 there
_PER_UNIT = 32  # places around which there is a series
_TERMS = 7


def _series() -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Coefficients of the Taylor series around each place, float64 [places, terms], the last term first.

    The derivative of order k + 1 is (-1)^k He_k(z) phi(z), He_k the Hermite polynomials of probability theory.
    """
    found = np.empty((2 * _FURTHEST * _PER_UNIT + 1, _TERMS))
    for at, row in enumerate(found):
        z = at / _PER_UNIT - _FURTHEST
        before, derivative = 0.0, math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        row[-1] = math.erfc(-z / math.sqrt(2)) / 2
        for order in range(1, _TERMS):
            row[-1 - order] = derivative / math.factorial(order)
            before, derivative = derivative, -z * derivative - (order - 1) * before
    return found


_SERIES = _series()


@compiled()
def chance_below(z: float) -> float:
    """Chance that a standard normal number is below z, which is not NaN."""
    held = min(max(z, -float(_FURTHEST)), float(_FURTHEST))
    at = np.uint64((held + _FURTHEST) * _PER_UNIT + 0.5)
    left, terms = held - (at * (1.0 / _PER_UNIT) - _FURTHEST), _SERIES[at]
    found: float = terms[0]
    for term in range(1, _TERMS):
        found = found * left + terms[term]
    return found
