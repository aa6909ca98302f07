"""What a dump is read from: a Parquet file or a table in memory, both as streams of Arrow columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from iscope.dump.ragged import Flags
from iscope.dump.where import Bound

# Rows read at once, at most: it bounds the memory where a few rollouts are far longer than the file's average.
MAX_ROWS = 1024
# Share of a batch that rows of average length are to fill, so that few batches overflow and have to be cut.
FILL = 0.8


class RowSource(Protocol):
    """One file or table of rollouts."""

    @property
    def name(self) -> str:
        """What errors and default rollout ids call it."""

    @property
    def rows(self) -> int:
        """Rollouts in it."""

    @property
    def size(self) -> int:
        """Bytes."""

    @property
    def schema(self) -> pa.Schema:
        """Its columns, those of its folder names included."""

    def read(
        self, columns: Mapping[str, str], anchor: str, batch_tokens: int, wanted: Flags | None = None
    ) -> Iterator[tuple[int, dict[str, pa.Array]]]:
        """Yield its rows in order, about ``batch_tokens`` tokens at a time, each time the number of the first row.

        Args:
            columns: key of the yielded arrays to column of the source.
            anchor: the list column (of the source) whose lengths decide how many rows are read at once.
            batch_tokens: tokens to aim at.
            wanted: bool [rows], rows that must be read, others may be; None is all.
        """

    def possible(self, bounds: Sequence[Bound]) -> Flags:
        """Return bool [rows]: False for rows that are known not to meet all bounds, without reading any."""


def rows_per_read(tokens: int, rows: int, batch_tokens: int) -> int:
    """Return how many rows of this average length make a batch."""
    average = tokens / max(rows, 1)
    return int(min(max(FILL * batch_tokens / max(average, 1.0), 1), MAX_ROWS))
