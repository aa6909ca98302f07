"""Small numerics that every figure uses, safe where ratios leave float64."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from iscope.model import Figure
from iscope.replay.compiled import compiled

Array = np.ndarray[Any, np.dtype[Any]]

NO_TOKENS = "no scored tokens"
_LARGEST_EXPONENT = math.log(np.finfo(np.float64).max)
_SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)
_SMALLEST = float(np.finfo(np.float64).smallest_subnormal)
_LOWEST_EXPONENT = -707.0  # above it exp is far from the smallest normal number


def figure(value: float, why: str = "not a number") -> Figure:
    """Return a figure of a finite value, or an absent one."""
    if math.isfinite(value):
        return Figure(value)
    return Figure.absent("overflows float64" if math.isinf(value) else why)


def share(part: float, whole: float, why: str = NO_TOKENS) -> Figure:
    """Return part / whole; absent when there is no whole."""
    return figure(part / whole) if whole else Figure.absent(why)


def from_log(log: float) -> Figure:
    """Return exp(log), with log10 beside it where float64 over- or underflows."""
    if log == -math.inf:
        return Figure(0.0)
    if log > _LARGEST_EXPONENT:
        return Figure(None, why="overflows float64", log10=log / math.log(10))
    value = math.exp(log)
    return Figure(value) if value > _SMALLEST_NORMAL else Figure(value, log10=log / math.log(10))


# What can be made again from so many weights is held; of more it would take more memory than the time is worth.
_FEW = 2**18


@dataclass(frozen=True)
class Scaled:
    """Weights given by their logs, over the largest of them: float64 may not hold the weights themselves.

    Attributes:
        logs: float64 [N], -inf for a weight of 0.
    """

    logs: Array
    _squares: list[Array] = field(default_factory=list, repr=False, compare=False)

    @cached_property
    def top(self) -> float:
        """Log of the largest; -inf where there is none above 0."""
        return float(self.logs.max(initial=-math.inf))

    @cached_property
    def values(self) -> Array:
        """The weights [N] over the largest."""
        return exp_of(self.logs - self.top) if self.top > -math.inf else np.zeros(self.logs.size)

    @property
    def squares(self) -> Array:
        """Squares [N] of the weights over the largest; of few, they are at hand."""
        squares = self._squares[0] if self._squares else np.asarray(self.values**2)
        self._squares[:] = [squares] if squares.size <= _FEW else []
        return squares

    @cached_property
    def log_sum(self) -> float:
        """Log of their sum; -inf where there is none above 0."""
        return self.top + math.log(float(self.values.sum())) if math.isfinite(self.top) else self.top

    def effective_size(self, repeats: Array | None = None) -> float:
        """(sum w)^2 / sum w^2, Kish's effective sample size; 0 when all weights are 0.

        Args:
            repeats: how often each weight counts (tokens that share their rollout's weight) [N]; None is once.
        """
        if self.top == -math.inf:
            return 0.0
        times = 1 if repeats is None else repeats
        return float((self.values * times).sum()) ** 2 / float((self.squares * times).sum())


def first_places(codes: Array) -> Array:
    """Place of the first row that has each row's code, int64 [N]; codes [N] from 0, none far above N."""
    places = np.arange(codes.size)
    first_with = np.empty(int(codes.max(initial=-1)) + 1, dtype=np.int64)
    first_with[codes[::-1]] = places[::-1]  # of rows with one code the first is written last
    return np.asarray(first_with[codes])


def read_only(values: Array, dtype: type[np.generic]) -> Array:
    """Values as compiled loops take them, whatever they are read from: one kind of array, for which one is compiled."""
    found = np.ascontiguousarray(values, dtype=dtype).view()
    found.flags.writeable = False
    return found


def log_of(values: Array) -> Array:
    """Natural log of values, none below 0; -inf at 0, which NumPy's own takes several times as long for."""
    found = np.maximum(values, _SMALLEST)
    np.log(found, out=found)
    replace_low(found, read_only(values, np.float64), 0.0, -math.inf)
    return np.asarray(found)


def exp_of(logs: Array) -> Array:
    """exp of logs, 0 at -inf, which NumPy's own takes several times as long for."""
    found = np.maximum(logs, _LOWEST_EXPONENT)
    np.exp(found, out=found)
    finite = replace_low(found, read_only(logs, np.float64), _LOWEST_EXPONENT, 0.0)
    return np.exp(logs) if finite else found


@compiled()
def replace_low(found: Any, values: Any, lowest: float, by: float) -> int:
    """Replace what was made of values up to a lowest one; return how many of these are finite.

    Args:
        found: what was made of each value, float64 [N].
        values: float64 [N], read only; NaN is not low.
        lowest: the highest value that counts as low.
        by: what to write there.
    """
    finite = 0
    for place in range(len(found)):
        low = values[place] <= lowest
        found[place] = by if low else found[place]
        finite += low & (values[place] > -math.inf)
    return finite
