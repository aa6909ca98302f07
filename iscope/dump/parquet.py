"""A Parquet file as a source: only the needed columns, a few row groups' pages at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from iscope.dump.files import hive_values
from iscope.dump.source import rows_per_read
from iscope.errors import DataError

# Column chunks are read through a buffer of this many bytes: without it a whole row group would be in memory.
_READ_BUFFER = 1 << 20


@dataclass(frozen=True)
class ParquetSource:
    """One Parquet file.

    Attributes:
        name: its path.
        rows: rollouts in it.
        size: bytes on disk.
        schema: its columns, then those of its ``key=value`` folders.
        constants: the values of the latter.
    """

    name: str
    rows: int
    size: int
    schema: pa.Schema
    constants: Mapping[str, str | int | None] = field(default_factory=dict)

    @classmethod
    def open(cls, path: str) -> ParquetSource:
        """Read a file's footer.

        Raises:
            DataError: when it is no readable Parquet file.
        """
        with _readable(path), pq.ParquetFile(path) as file:
            rows, schema = file.metadata.num_rows, file.schema_arrow.remove_metadata()
        constants = {key: value for key, value in hive_values(path).items() if key not in schema.names}
        for key, value in constants.items():
            schema = schema.append(pa.field(key, pa.int64() if isinstance(value, int) else pa.string()))
        return cls(path, rows, os.path.getsize(path), schema, constants)

    def read(self, columns: Mapping[str, str], anchor: str, batch_tokens: int) -> Iterator[dict[str, pa.Array]]:
        """Yield its rows in order, about ``batch_tokens`` tokens at a time; see ``RowSource.read``."""
        names = list(dict.fromkeys(name for name in columns.values() if name not in self.constants))
        with _readable(self.name), pq.ParquetFile(self.name, buffer_size=_READ_BUFFER) as file:
            if file.metadata.num_rows != self.rows or not set(names) <= set(file.schema_arrow.names):
                raise DataError(f"{self.name}: the file was replaced while it was being read; run this again.")
            for groups, rows in _runs(file.metadata, anchor, batch_tokens):
                for batch in file.iter_batches(rows, row_groups=groups, columns=names, use_threads=False):
                    yield {key: self._array(batch, name) for key, name in columns.items()}

    def _array(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        if name in self.constants:
            return pa.repeat(pa.scalar(self.constants[name], self.schema.field(name).type), batch.num_rows)
        return batch.column(name)


def _runs(metadata: pq.FileMetaData, anchor: str, batch_tokens: int) -> Iterator[tuple[list[int], int]]:
    """Yield runs of row groups and the rows to read at once in each; a large row group of other lengths starts one."""
    leaf = _leaf(metadata, anchor)
    groups: list[int] = []
    run_tokens = run_rows = 0
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        rows, tokens = group.num_rows, group.column(leaf).num_values
        if groups and tokens >= batch_tokens and not 0.5 <= (tokens * run_rows) / max(run_tokens * rows, 1) <= 2:
            yield groups, rows_per_read(run_tokens, run_rows, batch_tokens)
            groups, run_tokens, run_rows = [], 0, 0
        groups.append(index)
        run_tokens, run_rows = run_tokens + tokens, run_rows + rows
    if groups:
        yield groups, rows_per_read(run_tokens, run_rows, batch_tokens)


def _leaf(metadata: pq.FileMetaData, name: str) -> int:
    paths = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    return next(index for index, path in enumerate(paths) if path == name or path.startswith(name + "."))


@contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = str(error).strip().split("\n")[0].rstrip(".")
        raise DataError(
            f"{path}: cannot be read as Parquet ({reason}); it may be truncated, unfinished or in another format."
        ) from None
