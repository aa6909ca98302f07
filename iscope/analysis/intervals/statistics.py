"""The functions of sums that figures are: what a bootstrap evaluates on every replicate, in compiled loops."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from iscope.replay.compiled import compiled


class Statistic(IntEnum):
    """A figure as a function of up to four sums a, b, c, d."""

    QUOTIENT = 0  # a / b
    QUOTIENTS = 1  # a / b * c / d
    DIFFERENCE = 2  # a / b - c / d
    SIZE = 3  # a^2 / b: Kish's effective sample size, of sums of w and of w^2
    SIZE_SHARE = 4  # a^2 / b / c: the same over the number of weights


_, _QUOTIENTS, _DIFFERENCE, _SIZE, _SIZE_SHARE = (int(one) for one in Statistic)


@compiled()
def evaluate(found: Any, statistic: int, columns: Any, of: Any, start: Any, sign: float) -> None:
    """Evaluate a statistic of start + sign * column, place by place; it may be NaN or infinite.

    Args:
        found: where to write, float64 [P].
        statistic: which, a ``Statistic``.
        columns: float64 [J, P].
        of: int64 [4], the columns that stand for a, b, c, d; any for those that it has not.
        start: float64 [4], what is added to each of a, b, c, d.
        sign: what columns are multiplied by, 1 or -1.
    """
    a, b, c, d = columns[of[0]], columns[of[1]], columns[of[2]], columns[of[3]]
    for at in range(len(found)):
        first, second = start[0] + sign * a[at], start[1] + sign * b[at]
        found[at] = of_sums(statistic, first, second, start[2] + sign * c[at], start[3] + sign * d[at])


@compiled()
def of_sums(statistic: int, a: float, b: float, c: float, d: float) -> float:
    """A statistic of up to four sums; it may be NaN or infinite."""
    if statistic == _QUOTIENTS:
        return a / b * (c / d)
    if statistic == _DIFFERENCE:
        return a / b - c / d
    if statistic == _SIZE:
        return a / b * a
    if statistic == _SIZE_SHARE:
        return a / b * a / c
    return a / b
