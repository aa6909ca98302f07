"""Which rollouts are resampled together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from iscope.analysis.numbers import Array

SEED = 20150801
# Beyond these many clusters, unions of them are resampled. Unions of independent clusters are independent too; with so
# many the spread is known to 1 / sqrt(2 * 256), 4.4%, about as well as 1,000 replicates tell an end, and what is drawn
# fits into a core's cache.
MOST_BLOCKS = 256


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

    @classmethod
    def of(cls, codes: Array) -> Clusters:
        """Make blocks of clusters.

        Args:
            codes: int64 [N], equal for rollouts of one cluster. Blocks are numbered as clusters first appear, so that
                rows in canonical order give the same blocks whatever the ids are.
        """
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        rank = np.empty(first.size, dtype=np.int64)
        rank[np.argsort(first)] = np.arange(first.size)
        if first.size > MOST_BLOCKS:
            rank = np.random.default_rng(SEED).permutation(first.size)[rank] % MOST_BLOCKS
        return cls(rank[inverse], min(first.size, MOST_BLOCKS), first.size)

    def sums(self, columns: Sequence[Array]) -> Array:
        """Sums [B, k] over each block of k columns [N]."""
        return np.stack([np.bincount(self.block, column, minlength=self.count) for column in columns], axis=1)


def cluster_codes(frame: pl.DataFrame) -> Array:
    """Number [N] of the first row with this row's group_id; its own where it has none."""
    rows = np.arange(frame.height)
    if "group_id" not in frame.columns:
        return rows
    numbered = pl.DataFrame({"group": frame["group_id"], "row": rows})
    first = pl.when(pl.col("group").is_null()).then("row").otherwise(pl.col("row").first().over("group"))
    return numbered.select(first.alias("row"))["row"].to_numpy()
