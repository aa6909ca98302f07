"""Rows cut into parts by the values of a key: sums and sample sizes of every part at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from iscope.analysis.intervals import Clusters, bounded
from iscope.analysis.intervals.bootstrap import FEWEST_CLUSTERS, Statistic
from iscope.analysis.intervals.figures import quotient
from iscope.analysis.numbers import NO_TOKENS, Array, share
from iscope.model import Figure

# Of more parts than anybody reads, none has intervals: they would cost more than the rest of the report.
MOST_BOUNDED = 100


@dataclass(frozen=True)
class Parts:
    """K parts of N rows; every method returns one number per part, [K].

    Attributes:
        values: the value of each part, in rising order, None last.
        order: int64 [N], the rows part by part.
        starts: int64 [K], where each part begins in ``order``.
        codes: int64 [N], equal for rollouts of one cluster.
    """

    values: list[Any]
    order: Array
    starts: Array
    codes: Array

    @classmethod
    def of(cls, key: pl.Series, clusters: Array) -> Parts:
        """Cut rows by the values [N] of a key; ``clusters`` [N] are codes of what is resampled together."""
        codes = _sortable(key).rank("dense").cast(pl.Int64).fill_null(len(key) + 1).to_numpy()
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        return cls(key.gather(order[starts]).to_list(), order, starts, clusters)

    @property
    def sizes(self) -> Array:
        """Rows of each part."""
        return np.diff(self.starts, append=len(self.order))

    def sum(self, values: Array) -> Array:
        """Sum of values [N]; integers and flags are counted in int64."""
        wide = values if values.dtype.kind == "f" else values.astype(np.int64)
        return self._reduce(np.add, wide)

    def max(self, values: Array) -> Array:
        """Largest of values [N]."""
        return self._reduce(np.maximum, values)

    def log_sum_exp(self, logs: Array) -> Array:
        """Log of the sum of exp of logs [N]; -inf where all are."""
        top = self.max(logs)
        finite = np.where(np.isneginf(top), 0.0, top)
        with np.errstate(divide="ignore"):
            return np.log(self.sum(np.exp(logs - self._spread(finite)))) + finite

    def effective_size(self, logs: Array) -> Array:
        """(sum w)^2 / sum w^2 of weights given by their logs [N]; 0 where all weights are 0."""
        top = self.max(logs)
        weights = np.exp(logs - self._spread(np.where(np.isneginf(top), 0.0, top)))
        squares = self.sum(weights**2)
        return self.sum(weights) ** 2 / np.where(squares == 0, 1.0, squares)

    def ratio(self, part: Array, whole: Array, why: str = NO_TOKENS) -> list[Figure]:
        """Sum of a column [N] over the sum of another."""
        sums = zip(self.sum(part).tolist(), self.sum(whole).tolist(), strict=True)
        return self.bounded([share(above, below, why) for above, below in sums], quotient, (part, whole))

    def bounded(self, found: Sequence[Figure], statistic: Statistic, columns: Sequence[Array]) -> list[Figure]:
        """Return a figure per part with its interval over the clusters of the part, where it has one.

        Args:
            found: the figure of each part.
            statistic: the figure as a function of sums over its part.
            columns: what is summed [N].
        """
        if all(clusters is None for _, clusters in self._clusters):
            return list(found)
        return [
            one if clusters is None else bounded(one, clusters, statistic, [column[rows] for column in columns])
            for one, (rows, clusters) in zip(found, self._clusters, strict=True)
        ]

    @cached_property
    def _clusters(self) -> list[tuple[Array, Clusters | None]]:
        """Rows and clusters of each part; no clusters where intervals are out of the question."""
        of_parts = np.split(self.order, self.starts[1:]) if len(self.order) else []
        if len(of_parts) > MOST_BOUNDED:
            return [(rows, None) for rows in of_parts]
        return [(rows, Clusters.of(self.codes[rows]) if rows.size >= FEWEST_CLUSTERS else None) for rows in of_parts]

    def _reduce(self, operation: np.ufunc, values: Array) -> Array:
        # Without rows there are no parts; reduceat itself refuses to reduce an empty array.
        return np.asarray(operation.reduceat(values[self.order], self.starts)) if len(self.order) else values[:0]

    def _spread(self, of_parts: Array) -> Array:
        """Repeat a number per part [K] for each of its rows [N]."""
        spread = np.empty(len(self.order), dtype=of_parts.dtype)
        spread[self.order] = np.repeat(of_parts, self.sizes)
        return spread


def _sortable(key: pl.Series) -> pl.Series:
    """Ids such as "2" and "10" in the order of their numbers, where all of them are numbers."""
    numbers = key.cast(pl.Int64, strict=False) if key.dtype == pl.String else key
    return numbers if numbers.null_count() == key.null_count() else key
