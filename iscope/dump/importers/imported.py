"""An imported file as a source: token columns in temporary Parquet, values of rollouts in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from iscope.dump.parquet import ParquetSource
from iscope.dump.ragged import Flags
from iscope.dump.source import MAX_ROWS
from iscope.dump.where import Bound


@dataclass(frozen=True, eq=False)
class ImportedSource:
    """One imported file.

    Attributes:
        name: its path.
        rows: rollouts in it.
        size: bytes on disk.
        tokens: its token columns; None where it has none.
        values: its columns with one value per rollout.
        framework: the name of its format.
        said: what had to be assumed, one sentence each.
    """

    name: str
    rows: int
    size: int
    tokens: ParquetSource | None
    values: pa.Table
    framework: str
    said: list[str] = field(default_factory=list)

    @property
    def is_half(self) -> bool:
        """Whether its format holds the engine's logprobs alone, by its nature."""
        return "trainer_logprobs" not in self.schema.names and "inference_logprobs" in self.schema.names

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        single = set(self.values.column_names)
        lists = [] if self.tokens is None else [field for field in self.tokens.schema if field.name not in single]
        return pa.schema([*lists, *self.values.schema])

    def read(
        self, columns: Mapping[str, str], anchor: str, batch_tokens: int, wanted: Flags | None = None
    ) -> Iterator[tuple[int, dict[str, pa.Array]]]:
        """Yield its rows in order, about ``batch_tokens`` tokens at a time; see ``RowSource.read``."""
        single = {key: name for key, name in columns.items() if name in self.values.column_names}
        lists = {key: name for key, name in columns.items() if key not in single}
        if not lists or self.tokens is None:
            for first in range(0, self.rows, MAX_ROWS):
                yield first, self._values(single, first, min(MAX_ROWS, self.rows - first))
            return
        for first, arrays in self.tokens.read(lists, anchor, batch_tokens, wanted):
            rows = len(next(iter(arrays.values())))
            yield first, arrays | self._values(single, first, rows)

    def possible(self, bounds: Sequence[Bound]) -> Flags:  # noqa: ARG002 - nothing is kept that could tell
        """Return bool [rows]: any row may meet the bounds."""
        return np.ones(self.rows, dtype=np.bool_)

    def _values(self, single: Mapping[str, str], first: int, rows: int) -> dict[str, pa.Array]:
        return {key: _array(self.values.column(name).slice(first, rows)) for key, name in single.items()}


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
