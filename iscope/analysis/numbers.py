"""Small numerics that every figure uses, safe where ratios leave float64."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iscope.model import Figure
from iscope.replay.compiled import LANES, compiled
from iscope.replay.exponential import exp

Array = np.ndarray[Any, np.dtype[Any]]

NO_TOKENS = "no scored tokens"
NO_ADVANTAGE = "the dump has no advantages"
NO_ROLLOUT_ADVANTAGE = "the dump has no advantage per rollout"
_LARGEST_EXPONENT = math.log(np.finfo(np.float64).max)
_SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)
_SMALLEST = float(np.finfo(np.float64).smallest_subnormal)
_SUMMED = 4096  # values that are summed up by themselves: one sum of all would lose digits
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


@dataclass(frozen=True)
class Scaled:
    """Weights given by their logs, over the largest of them: float64 may not hold the weights themselves.

    Attributes:
        logs: float64 [N], -inf for a weight of 0.
        top: log of the largest; -inf where there is none above 0.
        values: the weights [N] over the largest.
        sum: their sum.
        square_sum: that of their squares.
        log_sum: log of the sum of the weights; -inf where there is none above 0.
    """

    logs: Array
    top: float = field(init=False)
    values: Array = field(init=False)
    sum: float = field(init=False)
    square_sum: float = field(init=False)
    log_sum: float = field(init=False)

    def __post_init__(self) -> None:
        """Make what there is to know: a cached property would have threads wait for each other (Python 3.11)."""
        top = float(self.logs.max(initial=-math.inf))
        values, total, squares = (
            _exp_and_sums(self.logs, top) if top > -math.inf else (np.zeros(self.logs.size), 0.0, 0.0)
        )
        log_sum = top + math.log(total) if math.isfinite(top) else top
        self.__dict__.update(top=top, values=values, sum=total, square_sum=squares, log_sum=log_sum)

    def effective_size(self, repeats: Array | None = None) -> float:
        """(sum w)^2 / sum w^2, Kish's effective sample size; 0 when all weights are 0.

        Args:
            repeats: how often each weight counts (tokens that share their rollout's weight) [N]; None is once.
        """
        if self.top == -math.inf:
            return 0.0
        if repeats is None:
            return self.sum**2 / self.square_sum
        repeated = self.values * repeats
        return float(repeated.sum()) ** 2 / float((repeated * self.values).sum())


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
    return _exp_and_sums(logs, top)[0]


def _exp_and_sums(logs: Array, top: float) -> tuple[Array, float, float]:
    """exp of logs - top, the sum of it, and that of its squares."""
    found = np.empty(logs.shape)
    odd, total, squares = fill_exp(found.reshape(-1), read_only(logs.reshape(-1), np.float64), top)
    if odd:
        found = np.asarray(np.exp(logs - top))
        with np.errstate(over="ignore"):
            total, squares = float(found.sum()), float((found**2).sum())
    return found, total, squares


@compiled(LANES)
def fill_exp(found: Any, logs: Any, top: float) -> tuple[int, float, float]:
    """Write exp of logs - top, and return sums.

    How many of these leave the normal numbers of float64, and are not -inf; the sum of what was written, and that of
    its squares.

    Args:
        found: where to write, float64 [N].
        logs: float64 [N], read only.
        top: what is taken from each.
    """
    odd, total, squares = 0, 0.0, 0.0
    for first in range(0, len(found), _SUMMED):
        end = min(first + _SUMMED, len(found))
        of_some = _fill_some(found[first:end], logs[first:end], top)
        odd, total, squares = odd + of_some[0], total + of_some[1], squares + of_some[2]
    return odd, total, squares


@compiled(LANES)
def _fill_some(found: Any, logs: Any, top: float) -> tuple[int, float, float]:
    odd, total, squares = 0, 0.0, 0.0
    for place in range(len(found)):
        x = logs[place] - top
        value = exp(x) if x > -math.inf else 0.0
        found[place] = value
        total += value
        squares += value * value
        odd += (abs(x) < _LARGEST_NORMAL) == (x == -math.inf)
    return odd, total, squares


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
