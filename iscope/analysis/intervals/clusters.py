"""Which rollouts are resampled together."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from iscope.analysis.numbers import Array, first_places

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
        """Sums [B] of a column [N] over each block; figures ask for the same column, the very array, in turn."""
        found = next((sums for asked, sums in self._latest if asked is column), None)
        sums = np.bincount(self.block, column, minlength=self.count) if found is None else found
        self._latest[:] = [(column, sums), *(one for one in self._latest if one[0] is not column)][:_LATEST]
        return sums


def cluster_codes(frame: pl.DataFrame) -> Array:
    """Number [N] of the first row with this row's group_id; its own where it has none."""
    rows = np.arange(frame.height)
    if "group_id" not in frame.columns:
        return rows
    numbered = pl.DataFrame({"group": frame["group_id"], "row": rows})
    first = pl.when(pl.col("group").is_null()).then("row").otherwise(pl.col("row").first().over("group"))
    return numbered.select(first.alias("row"))["row"].to_numpy()
