"""Batch scopes: over which rollouts a loss is normalised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from iscope.errors import DataError
from iscope.ledger.plan import BATCH
from iscope.rollouts import RolloutBatch

Label: TypeAlias = str | int | float
Places: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


class Scopes:
    """Tells to which batch each rollout belongs; batches are numbered as they come up.

    Attributes:
        batch: ``all``: the dump is one batch. ``step``: each value of the column is one. N: N consecutive rollouts.
        labels: the name of each batch [K]: ``all``, the step, or its number from 0.
    """

    def __init__(self, batch: str | int) -> None:
        """Take a batch scope as ``iscope.engines.batch_scope.batch_scope`` returns it."""
        self.batch = batch
        self.labels: list[Label] = ["all"] if batch == "all" else []
        self._places: dict[Label, int] = {}

    def places(self, columns: pl.DataFrame, first: int) -> Places:
        """Return the batch of each rollout, int64 [N].

        Args:
            columns: their columns, N rows, with ``step`` where that is the scope.
            first: how many rollouts of the dump come before them.

        Raises:
            DataError: when a rollout has no step and that is the scope.
        """
        if isinstance(self.batch, int):
            places = (first + np.arange(columns.height, dtype=np.int64)) // self.batch
            self.labels.extend(range(len(self.labels), int(places[-1]) + 1 if places.size else 0))
            return places
        if self.batch == "all":
            return np.zeros(columns.height, dtype=np.int64)
        return self._by_step(columns)

    def _by_step(self, columns: pl.DataFrame) -> Places:
        steps = columns["step"]
        missing = (steps.is_null() | steps.is_nan() if steps.dtype.is_float() else steps.is_null()).to_numpy()
        if missing.any():
            name = columns["rollout_id"][int(np.argmax(missing))]
            raise DataError(f"rollout {name}: its step is null; with --batch step every rollout needs one.")
        found = steps.unique(maintain_order=True)
        for step in found.to_list():
            if step not in self._places:
                self._places[step] = len(self.labels)
                self.labels.append(step)
        numbers = pl.Series([self._places[step] for step in found.to_list()], dtype=pl.Int64)
        return steps.replace_strict(found, numbers, return_dtype=pl.Int64).to_numpy(writable=True)


def scoped(batches: Iterable[RolloutBatch], scope: str | int) -> Iterator[RolloutBatch]:
    """Yield the batches of a dump, each rollout with the number of its scope where N rollouts in a row are one.

    Args:
        batches: the dump, in its order.
        scope: as ``iscope.engines.batch_scope.batch_scope`` returns it.

    Raises:
        DataError: when a rollout has no step and that is the scope.
    """
    scopes, first = Scopes(scope), 0
    for batch in batches:
        if scope != "all":
            places = scopes.places(batch.columns, first)
            if isinstance(scope, int):
                batch = replace(batch, columns=batch.columns.with_columns(pl.Series(BATCH, places)))
        first += len(batch)
        yield batch
