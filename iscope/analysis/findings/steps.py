"""How the mismatch moves over steps, with how peaked the sampling is taken out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iscope.analysis.findings.statistics import Trend, trend
from iscope.analysis.numbers import first_places

if TYPE_CHECKING:
    from iscope.analysis.findings.evidence import Evidence
    from iscope.analysis.numbers import Array

FEWEST_STEPS = 3
FEWEST_CLUSTERS = 9
RISE = 1.5
SURE = 4.0
# Combinations per row up to which a table of them all is quicker than to sort the rows.
_MOST_CODES = 8


@dataclass(frozen=True)
class Climb:
    """The mismatch of some rollouts over the steps.

    Attributes:
        rollouts: how many.
        steps: the first and the last step.
        rise: factor by which abs(d) rises from the first step to the last, as expected by q, by the fitted line.
        z: its slope in standard errors between groups.
        k3: k3 at the first and at the last step, nats per token.
        surprise: mean -log q at the first and at the last step, nats.
        lag_z: effect of the recorded lag beside that of the step, in standard errors; 0 where there is one lag only.
    """

    rollouts: int
    steps: tuple[float, float]
    rise: float
    z: float
    k3: tuple[float, float]
    surprise: tuple[float, float]
    lag_z: float = 0.0

    @property
    def climbs(self) -> bool:
        """Whether it rises by half or more, surely."""
        return self.rise >= RISE and self.z >= SURE


def climb(evidence: Evidence, chosen: Array, lags: Array | None = None) -> Climb | None:
    """Fit log of abs(d), over what its tokens' q lets expect, to the step, group by group.

    Args:
        evidence: the dump.
        chosen: bool [N], the rollouts to look at.
        lags: [N], a second explanation that the step's effect is freed of.

    Returns:
        None where there are fewer than three steps or nine groups among them.
    """
    step = evidence.column("step")
    if step is None:
        return None
    chosen = chosen & np.isfinite(step) & (np.ones_like(chosen) if lags is None else np.isfinite(lags))
    if np.unique(step[chosen]).size < FEWEST_STEPS:
        return None
    cells = _cells(evidence, chosen, step, lags)
    if cells.x.size < FEWEST_CLUSTERS:
        return None
    fitted, lag_z = _fit(cells)
    first, last = chosen & (step == step[chosen].min()), chosen & (step == step[chosen].max())
    return Climb(
        rollouts=int(chosen.sum()),
        steps=(float(step[chosen].min()), float(step[chosen].max())),
        rise=math.exp(min(fitted.rise, 700.0)),
        z=fitted.z,
        k3=(evidence.k3_of(first), evidence.k3_of(last)),
        surprise=(_surprise(evidence, first), _surprise(evidence, last)),
        lag_z=lag_z,
    )


@dataclass(frozen=True)
class _Cells:
    """Groups, cut where they span steps or lags: step, lag, log of the relative gap, and its weight."""

    x: Array
    lag: Array | None
    y: Array
    weight: Array


def _cells(evidence: Evidence, chosen: Array, step: Array, lags: Array | None) -> _Cells:
    observed, expected = evidence.relative_gap
    rows = np.flatnonzero(chosen)
    columns = [evidence.clusters[rows], step[rows]] + ([] if lags is None else [lags[rows]])
    first, codes = _together(columns)
    seen, due = (np.bincount(codes, values[rows]) for values in (observed, expected))
    good = (seen > 0) & (due > 0)
    of_step, *of_lag = (column[first][good] for column in columns[1:])
    return _Cells(of_step, of_lag[0] if of_lag else None, np.log(seen[good] / due[good]), due[good])


def _together(columns: list[Array]) -> tuple[Array, Array]:
    """Where each combination of values [N] first stands, in rising order, and the number of each row's."""
    code = np.zeros(columns[0].size, dtype=np.int64)
    for column in columns:
        if column.dtype.kind == "i":  # numbers of clusters, from 0
            there = np.zeros(int(column.max(initial=0)) + 1, dtype=np.int64)
            there[column] = 1
            numbers = np.cumsum(there) - 1
            code = code * (int(numbers[-1]) + 1) + numbers[column]
        else:
            values = np.unique(column)
            code = code * values.size + np.searchsorted(values, column)
    if int(code.max(initial=0)) > _MOST_CODES * max(code.size, 1):
        _, first, number = np.unique(code, return_index=True, return_inverse=True)
        return first, number
    place = first_places(code)
    first = np.flatnonzero(place == np.arange(code.size))
    first = first[np.argsort(code[first])]
    number = np.empty(code.size, dtype=np.int64)
    number[first] = np.arange(first.size)
    return first, number[place]


def _fit(cells: _Cells) -> tuple[Trend, float]:
    if cells.lag is None or np.unique(cells.lag).size < 2:
        return trend(cells.x, cells.y, cells.weight), 0.0
    of_lag = trend(cells.lag, cells.y, cells.weight, cells.x)
    return trend(cells.x, cells.y, cells.weight, cells.lag), of_lag.z


def _surprise(evidence: Evidence, chosen: Array) -> float:
    tokens = float(evidence.rows.n[chosen].sum())
    return -float(evidence.rows["inference_logprob_sum"][chosen].sum()) / tokens if tokens else 0.0
