"""A Parquet file as a source: only the needed columns, a few row groups' pages at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from iscope.dump.files import hive_values, is_remote
from iscope.dump.parquet_file import open_parquet, read_footer
from iscope.dump.ragged import Flags
from iscope.dump.remote.file import size_of
from iscope.dump.source import rows_per_read
from iscope.dump.where import Bound
from iscope.errors import DataError

# Column chunks are read through a buffer of this many bytes; read ahead, a whole row group would be in memory.
_STREAMED: dict[str, Any] = {"buffer_size": 1 << 20, "pre_buffer": False}


@dataclass(frozen=True)
class ParquetSource:
    """One Parquet file.

    Attributes:
        name: its path.
        rows: rollouts in it.
        size: bytes on disk.
        schema: its columns, then those of its ``key=value`` folders.
        constants: the values of the latter.
        modified: when it was changed last, ns; 0 is not known.
    """

    name: str
    rows: int
    size: int
    schema: pa.Schema
    constants: Mapping[str, str | int | None] = field(default_factory=dict)
    modified: int = 0

    @classmethod
    def open(cls, path: str) -> ParquetSource:
        """Read a file's footer.

        Raises:
            DataError: when it is no readable Parquet file.
        """
        with readable(path):
            footer = read_footer(path)
            rows, schema = footer.num_rows, footer.schema.to_arrow_schema().remove_metadata()
        constants = {key: value for key, value in hive_values(path).items() if key not in schema.names}
        for key, value in constants.items():
            schema = schema.append(pa.field(key, pa.int64() if isinstance(value, int) else pa.string()))
        return cls(path, rows, size_of(path), schema, constants, 0 if is_remote(path) else os.stat(path).st_mtime_ns)

    def read(
        self, columns: Mapping[str, str], anchor: str, batch_tokens: int, wanted: Flags | None = None
    ) -> Iterator[tuple[int, dict[str, pa.Array]]]:
        """Yield its rows in order, about ``batch_tokens`` tokens at a time; see ``RowSource.read``."""
        names = list(dict.fromkeys(name for name in columns.values() if name not in self.constants))
        if wanted is not None and not wanted.any():
            return
        with self._unchanged(), readable(self.name), open_parquet(self.name, **_STREAMED) as (file, expect):
            if file.metadata.num_rows != self.rows or not set(names) <= set(file.schema_arrow.names):
                raise self._changed()
            runs = list(_runs(file.metadata, anchor, batch_tokens, wanted))
            expect(names, [group for run in runs for group in run.groups])
            for run in runs:
                first = run.first
                rows = rows_per_read(run.tokens, run.rows, batch_tokens)
                for batch in file.iter_batches(rows, row_groups=run.groups, columns=names, use_threads=False):
                    yield first, {key: self._array(batch, name) for key, name in columns.items()}
                    first += batch.num_rows

    def groups(self, anchor: str) -> list[tuple[int, int]]:
        """Return the rows and the tokens (values of the list column ``anchor``) of each row group, by the footer."""
        with readable(self.name):
            metadata = read_footer(self.name)
            leaf = _leaf(metadata, anchor)
            groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
            return [(group.num_rows, group.column(leaf).num_values) for group in groups]

    def possible(self, bounds: Sequence[Bound]) -> Flags:
        """Return bool [rows]: False for rows that cannot meet the bounds, by row-group statistics and folder names."""
        of_folders = [(bound, self.constants[bound.column]) for bound in bounds if bound.column in self.constants]
        if any(bound.excludes(value, value) for bound, value in of_folders):
            return np.zeros(self.rows, dtype=np.bool_)
        with readable(self.name):
            metadata = read_footer(self.name)
        leaves = {bound: _leaf(metadata, bound.column) for bound in bounds if bound.column not in self.constants}
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        kept = [not any(_excludes(bound, group.column(leaf)) for bound, leaf in leaves.items()) for group in groups]
        return np.repeat(np.array(kept, dtype=np.bool_), [group.num_rows for group in groups])

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """What is read, and what goes wrong, is of the file that was opened; else it is said that it changed."""
        try:
            yield
        except DataError:
            self._refuse_change()
            raise
        self._refuse_change()

    def _refuse_change(self) -> None:
        if is_remote(self.name):  # its store says so where a part is asked for that is there no more
            return
        try:
            found = os.stat(self.name)
        except OSError as error:
            raise DataError(f"{self.name}: the file cannot be reached any more ({error.strerror}).") from None
        if found.st_size != self.size or (self.modified and found.st_mtime_ns != self.modified):
            raise self._changed() from None

    def _changed(self) -> DataError:
        return DataError(f"{self.name}: the file was replaced or changed while it was being read; run this again.")

    def _array(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        if name in self.constants:
            return pa.repeat(pa.scalar(self.constants[name], self.schema.field(name).type), batch.num_rows)
        return batch.column(name)


@dataclass
class _Run:
    """Adjacent row groups that are read alike: ``rows`` from row ``first`` on, ``tokens`` in all."""

    first: int
    groups: list[int] = field(default_factory=list)
    tokens: int = 0
    rows: int = 0

    def unlike(self, tokens: int, rows: int) -> bool:
        """Whether rollouts of a group are more than twice as long, or less than half as long."""
        return not 0.5 <= (tokens * self.rows) / max(self.tokens * rows, 1) <= 2


def _runs(metadata: pq.FileMetaData, anchor: str, batch_tokens: int, wanted: Flags | None) -> Iterator[_Run]:
    """Yield runs of row groups; one ends at a large group of other lengths, or at one without a row that is wanted."""
    leaf = _leaf(metadata, anchor)
    run = _Run(0)
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        rows, tokens = group.num_rows, group.column(leaf).num_values
        first = run.first + run.rows
        excluded = wanted is not None and not wanted[first : first + rows].any()
        if run.groups and (excluded or (tokens >= batch_tokens and run.unlike(tokens, rows))):
            yield run
            run = _Run(first)
        if excluded:
            run = _Run(first + rows)
            continue
        run.groups.append(index)
        run.tokens, run.rows = run.tokens + tokens, run.rows + rows
    if run.groups:
        yield run


def _excludes(bound: Bound, chunk: pq.ColumnChunkMetaData) -> bool:
    found = chunk.statistics if chunk.is_stats_set else None
    return found is not None and found.has_min_max and bound.excludes(found.min, found.max)


def _leaf(metadata: pq.FileMetaData, name: str) -> int:
    paths = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    return next(index for index, path in enumerate(paths) if path == name or path.startswith(name + "."))


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Turn what pyarrow says of a damaged file into one sentence."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError, MemoryError) as error:
        reason = str(error).strip().split("\n")[0].rstrip(".")
        raise DataError(
            f"{path}: cannot be read as Parquet ({reason}); it may be truncated, unfinished or in another format."
        ) from None
