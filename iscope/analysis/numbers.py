"""Small numerics that every figure uses, safe where ratios leave float64."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iscope.model import Figure
from iscope.replay.compiled import compiled
from iscope.replay.exponential import exp

Array = np.ndarray[Any, np.dtype[Any]]

NO_TOKENS = "no scored tokens"
_LARGEST_EXPONENT = math.log(np.finfo(np.float64).max)
_SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)
_SMALLEST = float(np.finfo(np.float64).smallest_subnormal)
_LARGEST_NORMAL = 700.0  # exp of less than it, or minus it, is a normal number


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
        top: log of the largest; -inf where there is none above 0.
        values: the weights [N] over the largest.
        log_sum: log of their sum; -inf where there is none above 0.
    """

    logs: Array
    top: float = field(init=False)
    values: Array = field(init=False)
    log_sum: float = field(init=False)
    _squares: list[Array] = field(default_factory=list, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make what there is to know: a cached property would have threads wait for each other (Python 3.11)."""
        top = float(self.logs.max(initial=-math.inf))
        values = exp_of(self.logs, top) if top > -math.inf else np.zeros(self.logs.size)
        log_sum = top + math.log(float(values.sum())) if math.isfinite(top) else top
        self.__dict__.update(top=top, values=values, log_sum=log_sum)

    @property
    def squares(self) -> Array:
        """Squares [N] of the weights over the largest; of few, they are at hand."""
        squares = self._squares[0] if self._squares else np.asarray(self.values**2)
        self._squares[:] = [squares] if squares.size <= _FEW else []
        return squares

    def effective_size(self, repeats: Array | None = None) -> float:
        """(sum w)^2 / sum w^2, Kish's effective sample size; 0 when all weights are 0.

        Args:
            repeats: how often each weight counts (tokens that share their rollout's weight) [N]; None is once.
        """
        if self.top == -math.inf:
            return 0.0
        columns = [self.values, self.squares]
        weight, square = (float((one if repeats is None else one * repeats).sum()) for one in columns)
        return weight**2 / square


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


def exp_of(logs: Array, top: float = 0.0) -> Array:
    """exp of logs - top, 0 at -inf, which NumPy's own takes several times as long for."""
    found = np.empty(logs.shape)
    odd = _fill_exp(found.reshape(-1), read_only(logs.reshape(-1), np.float64), top)
    return np.asarray(np.exp(logs - top)) if odd else found


@compiled()
def _fill_exp(found: Any, logs: Any, top: float) -> int:
    """Write exp of logs - top; return how many of these leave the normal numbers of float64, and are not -inf."""
    odd = 0
    for place in range(len(found)):
        x = logs[place] - top
        found[place] = exp(x) if x > -math.inf else 0.0
        odd += (abs(x) < _LARGEST_NORMAL) == (x == -math.inf)
    return odd


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
