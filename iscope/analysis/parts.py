"""Rows cut into parts by the values of a key: sums and sample sizes of every part at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from iscope.analysis.intervals import Clusters
from iscope.analysis.intervals.bootstrap import FEWEST_CLUSTERS, Statistic, intervals
from iscope.analysis.intervals.clusters import block_sums
from iscope.analysis.intervals.figures import kish, quotient, with_ends
from iscope.analysis.numbers import NO_TOKENS, Array, Scaled, exp_of, from_log, share
from iscope.model import Figure

# Of more parts than anybody reads, none has intervals: they would cost more than the rest of the report.
MOST_BOUNDED = 100
# Weights of a part are summed over the largest of all parts, unless they then leave so little.
_SMALLEST_SUM = 1e-200
_SHORT = 2**15 - 1


@dataclass(frozen=True)
class Asked:
    """A figure of each of K parts, to be bounded together with others.

    Attributes:
        found: the figure of each part.
        statistic: the figure as a function of sums over its part.
        sums: float64, what these are sums of, over the blocks of each part, see ``Parts.blocks``.
    """

    found: Sequence[Figure]
    statistic: Statistic
    sums: tuple[Array, ...]


@dataclass(frozen=True)
class Weighed:
    """A column of weights [N].

    Attributes:
        weights: the weights.
        sums: their sums over the blocks of each part, over the largest weight.
        logs: float64 [K], the log of the sum of each part.
    """

    weights: Scaled
    sums: Array
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

    def ratio(self, part: Array, whole: Array, why: str = NO_TOKENS) -> list[Figure]:
        """Sum of a column [N] over the sum of another."""
        return self.bounded([self.ask_ratio(self.blocks(part), self.blocks(whole), why)])[0]

    def ask_ratio(self, part: Array, whole: Array, why: str = NO_TOKENS) -> Asked:
        """The same of columns given by their sums over blocks."""
        sums = zip(self.of_blocks(part).tolist(), self.of_blocks(whole).tolist(), strict=True)
        return Asked([share(above, below, why) for above, below in sums], quotient, (part, whole))

    def ask_log_ratios(self, *asked: tuple[Weighed, Weighed, str]) -> list[Asked]:
        """The same of columns of weights; absent where there is no whole, and why."""
        tops = [max(part.weights.top, whole.weights.top) for part, whole, _ in asked]
        places = [(of, top) for (part, whole, _), top in zip(asked, tops, strict=True) for of in (part, whole)]
        summed = iter(self.blocks_of([of.weights.over(top) for of, top in places if top != of.weights.top]))
        sums = [of.sums if top == of.weights.top else next(summed) for of, top in places]
        return [
            Asked(self._log_shares(part, whole, why), quotient, (sums[2 * place], sums[2 * place + 1]))
            for place, (part, whole, why) in enumerate(asked)
        ]

    def _log_shares(self, part: Weighed, whole: Weighed, why: str) -> list[Figure]:
        absent = Figure.absent(why)
        logs = zip(part.logs.tolist(), whole.logs.tolist(), strict=True)
        return [absent if below == -math.inf else from_log(above - below) for above, below in logs]

    def ask_size(self, of: Weighed, squares: Array | None = None) -> Asked:
        """(sum w)^2 / sum w^2, Kish's effective sample size of weights; 0 where all are 0.

        Args:
            of: the weights.
            squares: sums of their squares over the blocks, where these were made before.
        """
        squares = self.blocks(of.weights.squares) if squares is None else squares
        below = self.of_blocks(squares)
        if (below < _SMALLEST_SUM).any():
            sizes = self.effective_size(of.weights.logs)
        else:
            sizes = self.of_blocks(of.sums) ** 2 / below
        return Asked([Figure(size) for size in sizes.tolist()], kish, (of.sums, squares))

    def weighed(self, weights: Scaled, sums: Array | None = None) -> Weighed:
        """Weights [N] with their sums over the blocks, which may have been made before."""
        sums = self.blocks(weights.values) if sums is None else sums
        return Weighed(weights, sums, self._log_sums(weights, sums))

    def blocks(self, values: Array) -> Array:
        """Sums of values [N] over the blocks of clusters of each part, float64, part by part."""
        return self.blocks_of([values])[0]

    def blocks_of(self, columns: Sequence[Array]) -> list[Array]:
        """The same of several columns, which takes less than one after the other."""
        return block_sums(self._blocks.of, int(self._blocks.counts.sum()), columns)

    def of_blocks(self, sums: Array) -> Array:
        """Sum over each part, given sums over its blocks."""
        return np.asarray(np.add.reduceat(sums, self._blocks.starts)) if sums.size else sums

    def bounded(self, asked: Sequence[Asked]) -> list[list[Figure]]:
        """Return the figures of each part with their intervals over its clusters, where they have one.

        All are resampled together, which is quicker by far than one after the other.
        """
        found = [list(one.found) for one in asked]
        for statistic in dict.fromkeys(one.statistic for one in asked):
            places = [place for place, one in enumerate(asked) if one.statistic is statistic]
            for count in np.unique(self._blocks.counts).tolist():
                parts = np.flatnonzero(self._blocks.counts == count)
                of_parts = self._blocks.starts[parts, None] + np.arange(count)
                sums = np.stack(  # part by part: figures of one part are over the same sums
                    [np.stack([column[of_parts] for column in asked[place].sums]) for place in places], axis=2
                )
                ends = iter(intervals(sums.reshape(len(sums), -1, count), statistic))
                for part in parts.tolist():
                    for place in places:
                        found[place][part] = with_ends(found[place][part], next(ends))
        return found

    def _log_sums(self, weights: Scaled, of_blocks: Array) -> Array:
        sums = self.of_blocks(of_blocks)
        if (sums < _SMALLEST_SUM).any():
            return self.log_sum_exp(weights.logs)
        return np.asarray(np.log(sums) + weights.top)

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


def _sortable(key: pl.Series) -> pl.Series:
    """Ids such as "2" and "10" in the order of their numbers, where all of them are numbers."""
    numbers = key.cast(pl.Int64, strict=False) if key.dtype == pl.String else key
    return numbers if numbers.null_count() == key.null_count() else key
