"""A side in quite another order than its partner, sorted on disk: memory holds one bucket of it."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

import numpy as np
import pyarrow as pa

from iscope.dump.ragged import Int64s
from iscope.dump.table import Table
from iscope.errors import UsageError

# Buckets are open at the same time while they are written.
_MOST_BUCKETS = 256


class Reordered:
    """Rows of a side in the order in which they will be asked for; reads the side once and writes it once."""

    def __init__(self, table: Table, asked: Int64s, batch_tokens: int, buckets: int) -> None:
        """Sort the side into buckets of successive requests.

        Args:
            table: the side.
            asked: int64 [M], every row that ``take`` will be asked for, in that order, each once.
            batch_tokens: tokens to read at a time.
            buckets: into how many parts to sort.

        Raises:
            UsageError: when the temporary folder has no room.
        """
        self._asked, self._done, self._bucket = len(asked), 0, -1
        self._buckets = min(max(buckets, 1), _MOST_BUCKETS, max(len(asked), 1))
        self._folder = Path(tempfile.mkdtemp(prefix="iscope-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._held: pa.Table | None = None
        try:
            self._sort(table, asked, batch_tokens)
        except OSError as error:
            raise UsageError(
                f"{self._folder}: cannot sort a side there ({error.strerror or error}); set TMPDIR to a folder "
                "with more room, or sort both sides alike first."
            ) from None

    def take(self, rows: Int64s) -> dict[str, pa.Array]:
        """Return the columns of the next ``len(rows)`` rows asked for, at least one."""
        pieces, wanted = [], len(rows)
        while wanted:
            bucket = self._done * self._buckets // self._asked
            if bucket != self._bucket:
                self._load(bucket)
            assert self._held is not None
            first = self._done - self._first_of(bucket)
            piece = self._held.slice(first, wanted)
            pieces.append(piece)
            wanted -= piece.num_rows
            self._done += piece.num_rows
        table = pa.concat_tables(pieces).combine_chunks()
        return {name: _one_array(table.column(name)) for name in table.column_names}

    def _sort(self, table: Table, asked: Int64s, batch_tokens: int) -> None:
        rank = np.full(table.rows, -1, dtype=np.int64)
        rank[asked] = np.arange(len(asked))
        writers: dict[int, pa.RecordBatchFileWriter] = {}
        try:
            for block in table.blocks(batch_tokens):
                ranks = rank[block.start + block.rows]
                buckets = np.where(ranks < 0, -1, ranks * self._buckets // max(self._asked, 1))
                columns = pa.table({**{name: wide(array) for name, array in block.arrays.items()}, _RANK: ranks})
                for bucket in np.unique(buckets[buckets >= 0]).tolist():
                    if bucket not in writers:
                        writers[bucket] = pa.ipc.new_file(str(self._path(bucket)), columns.schema)
                    writers[bucket].write_table(columns.filter(pa.array(buckets == bucket)))
        finally:
            for writer in writers.values():
                writer.close()

    def _load(self, bucket: int) -> None:
        self._held = None
        with pa.OSFile(str(self._path(bucket))) as file, pa.ipc.open_file(file) as reader:
            table = reader.read_all()
        order = np.argsort(table.column(_RANK).to_numpy())
        self._held = table.drop_columns([_RANK]).take(pa.array(order)).combine_chunks()
        self._bucket = bucket
        self._path(bucket).unlink()

    def _first_of(self, bucket: int) -> int:
        return -(-bucket * self._asked // self._buckets)

    def _path(self, bucket: int) -> Path:
        return self._folder / f"{bucket}.arrow"


_RANK = "rank of the row"


def wide(array: pa.Array) -> pa.Array:
    """Lists with 64-bit offsets: those of a whole side may hold more than 2^31 tokens together."""
    kind = array.type
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return array.cast(pa.large_list(kind.value_type)) if lists else array


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
