"""Rows cut into parts by the values of a key: sums and sample sizes of every part at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np
import polars as pl

from iscope.analysis.intervals import Clusters, pending
from iscope.analysis.intervals.bootstrap import FEWEST_CLUSTERS
from iscope.analysis.intervals.clusters import block_sums, weight_sums
from iscope.analysis.intervals.statistics import Statistic
from iscope.analysis.numbers import NO_TOKENS, Array, Scaled, exp_of, from_log, read_only, share
from iscope.model import Figure
from iscope.replay.compiled import compiled

# Of more parts than anybody reads, none has intervals: they would cost more than the rest of the report.
MOST_BOUNDED = 100
# Weights of a part are summed over the largest of all parts, unless they then leave so little.
_SMALLEST_SUM = 1e-200
_SHORT = 2**15 - 1


@dataclass(frozen=True)
class PartSums:
    """Sums of a column [N] over the blocks of clusters of each part.

    Attributes:
        blocks: float64, the sums, part by part.
        of: those of each part [K].
    """

    blocks: Array
    of: list[Array]


@dataclass(frozen=True)
class PartWeights:
    """A column of weights [N].

    Attributes:
        weights: the weights.
        sums: their sums, over the largest weight.
        logs: float64 [K], the log of the sum of each part.
    """

    weights: Scaled
    sums: PartSums
    logs: Array


@dataclass(frozen=True)
class _Blocks:
    """Blocks of clusters of K parts.

    Attributes:
        of: int64 [N], the block of each row, numbered on from part to part.
        counts: int64 [K], how many each part has.
        starts: int64 [K], the first of each part.
    """

    of: Array
    counts: Array
    starts: Array

    @property
    def in_all(self) -> int:
        """How many there are."""
        return int(self.counts.sum())


@dataclass(frozen=True)
class Parts:
    """K parts of N rows; methods return one number or figure per part, [K]; figures wait for their intervals.

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
        ranks = _sortable(key).rank("dense").cast(pl.Int64)
        codes = ranks.fill_null(len(ranks.unique())).to_numpy()
        # A stable sort of short integers counts them, which is quicker than to compare.
        order = np.argsort(codes if codes.max(initial=0) > _SHORT else codes.astype(np.int16), kind="stable")
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

    def counts(self, values: Array) -> Array:
        """Sum of counts [N] and how many are above 0, int64 [2, K]."""
        found = np.zeros((2, len(self.starts)), dtype=np.int64)
        count_parts(found, self._part, read_only(values, np.int32))
        return found

    def max(self, values: Array) -> Array:
        """Largest of values [N]."""
        return self._reduce(np.maximum, values)

    def log_sum_exp(self, logs: Array) -> Array:
        """Log of the sum of exp of logs [N]; -inf where all are."""
        top = self.max(logs)
        finite = np.where(np.isneginf(top), 0.0, top)
        with np.errstate(divide="ignore"):
            return np.log(self.sum(exp_of(logs - self._spread(finite)))) + finite

    def effective_size(self, logs: Array) -> Array:
        """(sum w)^2 / sum w^2 of weights given by their logs [N]; 0 where all weights are 0."""
        top = self.max(logs)
        weights = exp_of(logs - self._spread(np.where(np.isneginf(top), 0.0, top)))
        squares = self.sum(weights**2)
        return self.sum(weights) ** 2 / np.where(squares == 0, 1.0, squares)

    def ratios(self, part: PartSums, whole: PartSums, why: str = NO_TOKENS) -> list[Figure]:
        """Sum of a column over the sum of another."""
        sums = zip(self.total(part).tolist(), self.total(whole).tolist(), strict=True)
        found = [share(above, below, why) for above, below in sums]
        return list(map(pending, found, repeat(Statistic.QUOTIENT), zip(part.of, whole.of, strict=True)))

    def weight_ratios(self, part: PartWeights, whole: PartWeights, why: str) -> list[Figure]:
        """The same of columns of weights; absent where there is no whole, and why."""
        absent, shift = Figure.absent(why), part.weights.top - whole.weights.top
        logs = zip(part.logs.tolist(), whole.logs.tolist(), strict=True)
        found = [absent if below == -math.inf else from_log(above - below) for above, below in logs]
        sums = zip(part.sums.of, whole.sums.of, strict=True)
        return list(map(pending, found, repeat(Statistic.QUOTIENT), sums, repeat(shift)))

    def effective_sizes(self, of: PartWeights, squares: PartSums) -> list[Figure]:
        """(sum w)^2 / sum w^2, Kish's effective sample size of weights, given with their squares; 0 where all are 0."""
        below = self.total(squares)
        if (below < _SMALLEST_SUM).any():
            sizes = self.effective_size(of.weights.logs)
        else:
            sizes = self.total(of.sums) ** 2 / below
        found = [Figure(size) for size in sizes.tolist()]
        return list(map(pending, found, repeat(Statistic.SIZE), zip(of.sums.of, squares.of, strict=True)))

    def size_shares(self, weight: PartSums, square: PartSums, count: PartSums) -> list[Figure]:
        """The effective sample size of weights over their number, from sums of w, w^2 and 1."""
        whole, squares = self.total(weight), self.total(square)
        sizes = np.divide(whole, squares, out=np.zeros_like(whole), where=squares > 0) * whole
        found = map(share, sizes.tolist(), self.total(count).tolist())
        return list(map(pending, found, repeat(Statistic.SIZE_SHARE), zip(weight.of, square.of, count.of, strict=True)))

    def weighed(self, whole: Scaled, *parts: Scaled) -> tuple[list[PartWeights], PartSums]:
        """Weights, and two parts of them or none, with their sums; and the sums of the squares of the weights."""
        found = map(self._cut, weight_sums(self._blocks.of, self._blocks.in_all, whole, parts))
        sums, squares, *of_parts = found
        weights, each = (whole, *parts), (sums, *of_parts)
        return list(map(PartWeights, weights, each, map(self._log_sums, weights, each))), squares

    def sums_of(self, columns: Sequence[Array]) -> list[PartSums]:
        """Sum columns [N] up over the blocks of each part; together, which takes less than one after the other."""
        return list(map(self._cut, block_sums(self._blocks.of, self._blocks.in_all, columns)))

    def _cut(self, blocks: Array) -> PartSums:
        ends = zip(self._blocks.starts.tolist(), (self._blocks.starts + self._blocks.counts).tolist(), strict=True)
        return PartSums(blocks, [blocks[start:end] for start, end in ends])

    def total(self, sums: PartSums) -> Array:
        """Sum over each part."""
        return np.asarray(np.add.reduceat(sums.blocks, self._blocks.starts)) if sums.blocks.size else sums.blocks

    def _log_sums(self, weights: Scaled, of: PartSums) -> Array:
        sums = self.total(of)
        if (sums < _SMALLEST_SUM).any():
            return self.log_sum_exp(weights.logs)
        return np.asarray(np.log(sums) + weights.top)

    @cached_property
    def _part(self) -> Array:
        """The part of each row, int64 [N]."""
        return self._spread(np.arange(len(self.starts)))

    @cached_property
    def _blocks(self) -> _Blocks:
        """Blocks of clusters of each part; one block where intervals are out of the question."""
        of_parts = np.split(self.order, self.starts[1:]) if len(self.order) else []
        of, counts, first = np.empty(len(self.order), dtype=np.int64), [], 0
        for rows in of_parts:
            if rows.size >= FEWEST_CLUSTERS and len(of_parts) <= MOST_BOUNDED:
                clusters = Clusters.of(self.codes[rows])
                of[rows] = clusters.block + first
                counts.append(clusters.count)
            else:
                of[rows] = first
                counts.append(1)
            first += counts[-1]
        sizes = np.array(counts, dtype=np.int64)
        return _Blocks(of, sizes, np.cumsum(sizes) - sizes)

    def _reduce(self, operation: np.ufunc, values: Array) -> Array:
        # Without rows there are no parts; reduceat itself refuses to reduce an empty array.
        return np.asarray(operation.reduceat(values[self.order], self.starts)) if len(self.order) else values[:0]

    def _spread(self, of_parts: Array) -> Array:
        """Repeat a number per part [K] for each of its rows [N]."""
        spread = np.empty(len(self.order), dtype=of_parts.dtype)
        spread[self.order] = np.repeat(of_parts, self.sizes)
        return spread


@compiled()
def count_parts(found: Any, part: Any, values: Any) -> None:
    """Add up counts, and how many are above 0, by part.

    Args:
        found: what to add to, int64 [2, K].
        part: the part of each row, int64 [N], from 0.
        values: int32 [N], read only.
    """
    for row in range(len(part)):
        at = np.uint64(part[row])
        found[0, at] += values[row]
        found[1, at] += values[row] > 0


def _sortable(key: pl.Series) -> pl.Series:
    """Ids such as "2" and "10" in the order of their numbers, where all of them are numbers."""
    numbers = key.cast(pl.Int64, strict=False) if key.dtype == pl.String else key
    return numbers if numbers.null_count() == key.null_count() else key
