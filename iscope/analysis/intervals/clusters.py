"""Which rollouts are resampled together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from iscope.analysis.intervals.kernels import sum_blocks, sum_four, sum_weights
from iscope.analysis.numbers import Array, Scaled, first_places, read_only

SEED = 20150801
# Beyond these many clusters, unions of them are resampled. Unions of independent clusters are independent too; with so
# many the spread is known to 1 / sqrt(2 * 256), 4.4%, about as well as 1,000 replicates tell an end, and what is drawn
# fits into a core's cache.
MOST_BLOCKS = 256
_LATEST = 4  # columns whose sums are held, and these with them: they are as long as the dump


@dataclass(frozen=True)
class Clusters:
    """N rollouts in B blocks: groups, rollouts without a group, or unions of as many of them.

    Attributes:
        block: int64 [N], the block of each rollout.
        count: B.
        each: clusters that were told apart, before unions.
    """

    block: Array
    count: int
    each: int
    _latest: list[tuple[Array, Array]] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    def of(cls, codes: Array) -> Clusters:
        """Make blocks of clusters.

        Args:
            codes: int64 [N] from 0, equal for rollouts of one cluster, none far above the number of rollouts. Blocks
                are numbered as clusters first appear, so that rows in canonical order give the same blocks whatever
                the ids are.
        """
        first = first_places(codes)
        clusters = np.flatnonzero(first == np.arange(codes.size))
        block = np.arange(clusters.size)
        if clusters.size > MOST_BLOCKS:
            block = np.random.default_rng(SEED).permutation(clusters.size) % MOST_BLOCKS
        block_of = np.empty(codes.size, dtype=np.int64)
        block_of[clusters] = block
        return cls(block_of[first], min(clusters.size, MOST_BLOCKS), clusters.size)

    def sums(self, column: Array) -> Array:
        """Sums [B] of a column [N] over each block."""
        return self.sums_of([column])[0]

    def sums_of(self, columns: Sequence[Array]) -> list[Array]:
        """Sums [B] of each of some columns [N]; figures ask for the same columns, the very arrays, in turn."""
        latest = list(self._latest)
        held = {id(column): sums for column, sums in latest}
        new = list({id(column): column for column in columns if id(column) not in held}.values())
        held |= dict(zip(map(id, new), block_sums(self.block, self.count, new), strict=True))
        asked = {id(column): column for column in columns}
        kept = [one for one in latest if id(one[0]) not in asked]
        self._latest[:] = [*((column, held[at]) for at, column in asked.items()), *kept][: max(_LATEST, len(asked))]
        return [held[id(column)] for column in columns]


def block_sums(block: Array, count: int, columns: Sequence[Array]) -> list[Array]:
    """Sums [B] of columns [N] over blocks, float64, row after row.

    Args:
        block: int64 [N], the block of each row.
        count: B.
        columns: numbers or flags.
    """
    read = [read_only(column, np.float64) for column in columns]
    fours = len(read) // 4 * 4
    found: list[Array] = []
    for first in range(0, fours, 4):
        four = np.zeros((count, 4))
        sum_four(four, block, *read[first : first + 4])
        found += [*np.ascontiguousarray(four.T)]
    for column in read[fours:]:
        found.append(np.zeros(count))
        sum_blocks(found[-1], block, column)
    return found


def weight_sums(block: Array, count: int, whole: Scaled, parts: Sequence[Scaled] = ()) -> list[Array]:
    """Sums [B] over blocks of weights over the largest, of their squares, and of the weights of each part.

    Args:
        block: int64 [N], the block of each row.
        count: B.
        whole: the weights.
        parts: two parts of them, or none.
    """
    if not parts:
        return block_sums(block, count, [whole.values, whole.values**2])
    found = np.zeros((count, 4))
    sum_weights(found, block, *(read_only(one.values, np.float64) for one in (whole, *parts)))
    return [*np.ascontiguousarray(found.T)]


def cluster_codes(frame: pl.DataFrame) -> Array:
    """Number [N] of the first row with this row's group_id; its own where it has none."""
    rows = np.arange(frame.height)
    if "group_id" not in frame.columns:
        return rows
    numbered = pl.DataFrame({"group": frame["group_id"], "row": rows})
    first = pl.when(pl.col("group").is_null()).then("row").otherwise(pl.col("row").first().over("group"))
    return numbered.select(first.alias("row"))["row"].to_numpy()
