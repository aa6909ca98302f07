"""The rollouts whose log-ratios sum up furthest from 0, tokens included, to look at one by one.

They are the same whatever the order of the dump, its batches and files: of rollouts with one sum, those come first that
stand first in the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from iscope.ledger.measure import Measured
from iscope.ledger.order import KEYS, MEASURED
from iscope.ledger.sample import Array, Sample, copied, in_parts, put_together
from iscope.recipes.model import Pair
from iscope.rollouts import RolloutBatch

ROLLOUTS = 20

_PARTS = 16  # batches whose rollouts are held before they are sorted
_SIZE = "abs(S)"
_SUM = f"{Pair.TRAINER_INFERENCE}:log_ratio_sum"


class FurthestBuilder:
    """Collects them while batches arrive, in any order; copies of a few rollouts are all that is held."""

    def __init__(self) -> None:
        """Start with none."""
        self._parts: list[Sample] = []
        self._sizes = np.zeros(0)

    def add(self, batches: Sequence[RolloutBatch], measured: Measured, described: Sequence[pl.DataFrame]) -> None:
        """Look at measured batches.

        Args:
            batches: the rollouts [N].
            measured: their rows of the ledger.
            described: of each batch, the columns that the ledger keeps.
        """
        size = np.abs(measured.columns[_SUM].numpy())
        size[measured.columns["scored"].numpy() == 0] = -1.0
        self._sizes = _largest(np.concatenate([self._sizes, _largest(size)]))
        # A size below all that are held cannot be among the largest of the dump.
        rows = np.flatnonzero(size >= (max(0.0, self._sizes.min()) if self._sizes.size == ROLLOUTS else 0.0))
        found = pl.DataFrame([pl.Series(_SIZE, size[rows]), *(_floats(name, measured, rows) for name in MEASURED)])
        first = 0
        for batch, frame, own in zip(batches, described, in_parts(rows, batches), strict=True):
            if own.size:
                self._take(batch, frame[own].hstack(found[first : first + own.size]), own)
            first += own.size
        if len(self._parts) >= _PARTS:
            self._parts = [furthest(self._parts)]

    def _take(self, batch: RolloutBatch, frame: pl.DataFrame, rows: Array) -> None:
        """Copy the furthest of some rollouts of a batch, int64 rows, of which these are the columns."""
        chosen = np.arange(rows.size) if rows.size <= ROLLOUTS else _order(frame)[:ROLLOUTS]
        self._parts.append(copied(batch, frame[chosen], rows[chosen]))

    def finish(self) -> Sample:
        """Return those of everything seen, the furthest first."""
        return furthest(self._parts)


def _floats(name: str, measured: Measured, rows: Array) -> pl.Series:
    return pl.Series(name, measured.columns[name].numpy()[rows].astype(np.float64))


def _largest(size: Array) -> Array:
    """The largest of some sizes, as many as are kept."""
    return size if size.size <= ROLLOUTS else np.partition(size, -ROLLOUTS)[-ROLLOUTS:]


def furthest(parts: Sequence[Sample]) -> Sample:
    """Return the furthest of several such samples."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return Sample.empty()
    rollouts = pl.concat([part.rollouts for part in parts], how="diagonal_relaxed")
    return put_together(parts, rollouts, _order(rollouts)[:ROLLOUTS])


def _order(rollouts: pl.DataFrame) -> Array:
    by = [pl.col(_SIZE), *(pl.col(name) for name in KEYS if name in rollouts.columns)]
    order = rollouts.select(pl.arg_sort_by(by, descending=[True] + [False] * (len(by) - 1), nulls_last=True))
    return np.asarray(order.to_series().to_numpy(), dtype=np.int64)
