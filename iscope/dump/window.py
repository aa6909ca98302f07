"""A side read alongside another one: rows are held from when they are read until they have all been asked for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from iscope.dump.ragged import Int64s
from iscope.dump.reordered import Reordered, wide
from iscope.dump.table import Table

# Of a side, in bytes of its files; joining its blocks may take twice that for a moment.
HELD_AT_MOST = 192 << 20


class Window:
    """Random access to a side's rows at the price of what the orders of the two sides differ by.

    Where both sides are in the same order a few blocks are held; where one is shuffled, up to all of it.
    """

    def __init__(self, table: Table, asked: Int64s, batch_tokens: int) -> None:
        """Start reading.

        Args:
            table: the side.
            asked: int64 [M], every row that ``take`` will be asked for, in that order.
            batch_tokens: tokens to read at a time.
        """
        self._blocks: Iterator[dict[str, pa.Array]] = (block.arrays for block in table.blocks(batch_tokens))
        # From each request on, the smallest row still to come: what lies below can be let go.
        self._needed_from = np.minimum.accumulate(asked[::-1])[::-1]
        self._done = 0
        self._first = 0
        self._held: pa.Table | None = None

    def take(self, rows: Int64s) -> dict[str, pa.Array]:
        """Return the columns of the next ``len(rows)`` rows asked for, at least one."""
        self._forget_below(int(self._needed_from[self._done]))
        self._done += len(rows)
        self._read_to(int(rows.max()))
        assert self._held is not None
        local = rows - self._first
        if (np.diff(local) == 1).all():
            table = self._held.slice(int(local[0]), len(local)).combine_chunks()
        else:
            table = self._held.take(pa.array(local))
        return {name: _one_array(table.column(name)) for name in table.column_names}

    def _forget_below(self, row: int) -> None:
        if self._held is not None:
            gone = min(row - self._first, self._held.num_rows)
            self._held = self._held.slice(gone)
            self._first += gone

    def _read_to(self, row: int) -> None:
        tables = [] if self._held is None else [self._held]
        end = self._first + sum(table.num_rows for table in tables)
        while end <= row:
            table = pa.table({name: wide(array) for name, array in next(self._blocks).items()})
            tables.append(table)
            end += table.num_rows
        if len(tables) > 1 or self._held is None:
            # One chunk each: taking rows from many chunks would join them all again for every request.
            self._held = pa.concat_tables(tables).combine_chunks()


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def alongside(table: Table, asked: Int64s, batch_tokens: int, most: int = HELD_AT_MOST) -> Window | Reordered:
    """Return access to a side's rows in the order asked for, in bounded memory.

    Args:
        table: the side.
        asked: int64 [M], every row that ``take`` will be asked for, in that order, each once.
        batch_tokens: tokens to read at a time.
        most: bytes of the side to hold in memory; where a window would hold more, the side is sorted on disk.
    """
    if not len(asked):
        return Window(table, asked, batch_tokens)
    a_row = sum(part.source.size for part in table.parts) / max(table.rows, 1)
    needed_from = np.minimum.accumulate(asked[::-1])[::-1]
    held = int((np.maximum.accumulate(asked) - needed_from).max())
    if held * a_row <= most:
        return Window(table, asked, batch_tokens)
    return Reordered(table, asked, batch_tokens, buckets=int(2 * table.rows * a_row // most) + 1)
