"""A polars DataFrame or pyarrow Table in memory as a source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from iscope.dump.ragged import Flags
from iscope.dump.source import rows_per_read
from iscope.dump.where import Bound


@dataclass(frozen=True)
class FrameSource:
    """One table in memory.

    Attributes:
        name: what errors and default rollout ids call it.
        table: its rows.
    """

    name: str
    table: pa.Table

    @classmethod
    def of(cls, frame: pl.DataFrame | pa.Table, name: str) -> FrameSource:
        """Wrap a frame; columns of Python objects are left out, since Arrow cannot hold them."""
        if isinstance(frame, pl.DataFrame):
            names = [column for column, dtype in frame.schema.items() if dtype != pl.Object]
            frame = frame.select(names).to_arrow()
        return cls(name, frame)

    @property
    def rows(self) -> int:
        """Rollouts in it."""
        return int(self.table.num_rows)

    @property
    def size(self) -> int:
        """Bytes."""
        return int(self.table.nbytes)

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return self.table.schema.remove_metadata()

    def read(
        self,
        columns: Mapping[str, str],
        anchor: str,
        batch_tokens: int,
        wanted: Flags | None = None,  # noqa: ARG002 - all of it is in memory: there is nothing to save
    ) -> Iterator[tuple[int, dict[str, pa.Array]]]:
        """Yield its rows in order, about ``batch_tokens`` tokens at a time; see ``RowSource.read``."""
        tokens = pc.sum(pc.list_value_length(self.table.column(anchor))).as_py() or 0
        rows = rows_per_read(tokens, self.rows, batch_tokens)
        names = list(dict.fromkeys(columns.values()))
        first = 0
        for batch in self.table.select(names).to_batches(max_chunksize=rows):
            yield first, {key: batch.column(name) for key, name in columns.items()}
            first += batch.num_rows

    def possible(self, bounds: Sequence[Bound]) -> Flags:  # noqa: ARG002 - a table has no statistics
        """Return bool [rows]: any row may meet the bounds."""
        return np.ones(self.rows, dtype=np.bool_)
