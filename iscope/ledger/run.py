"""Rows of a ledger in Parquet files that nobody else sees, or in a part of a file."""

from __future__ import annotations

import io
import os
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from iscope.errors import DataError, UsageError


class Opened:
    """An open file, closed when nobody has it any more."""

    def __init__(self, file: IO[bytes]) -> None:
        """Take a file over."""
        self.file = file
        weakref.finalize(self, _close, file)


class Section(io.RawIOBase):
    """A part of an open file, to be read; several of one file do not disturb each other."""

    def __init__(self, file: Opened, start: int, size: int) -> None:
        """Take ``size`` bytes from ``start`` on; the file stays open for as long as this is there."""
        self._file, self._start, self._size, self._at = file, start, size, 0

    def readable(self) -> bool:
        """Whether it can be read: it can."""
        return True

    def seekable(self) -> bool:
        """Whether any place can be read: it can."""
        return True

    def tell(self) -> int:
        """Where the next byte is read, from the start of the part."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place."""
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Return so many bytes; fewer only at the end."""
        left = max(self._size - self._at, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        parts = []
        while wanted and (part := os.pread(self._file.file.fileno(), wanted, self._start + self._at)):
            parts.append(part)
            self._at += len(part)
            wanted -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class Run:
    """N rows in Parquet; a column is read when it is asked for.

    Attributes:
        schema: names and types of the columns.
        height: N.
        held: bytes in memory, none.
    """

    def __init__(self, name: str, files: Sequence[Section]) -> None:
        """Take Parquet files that have some of the columns each, and all rows in one order and in equal row groups.

        Args:
            name: what errors call it.
            files: the files, at least one.

        Raises:
            DataError: when they are none.
        """
        self._name = name
        try:
            self._files = [pq.ParquetFile(file, pre_buffer=False) for file in files]
        except (OSError, pa.ArrowException) as error:
            raise self._unreadable(error) from None
        self._of = {column: file for file in self._files for column in file.schema_arrow.names}
        schemas = [pl.DataFrame(file.schema_arrow.empty_table()).schema for file in self._files]
        self.schema = pl.Schema([pair for schema in schemas for pair in schema.items()])
        self.height: int = self._files[0].metadata.num_rows
        self.held = 0

    def read(self, name: str) -> pl.Series:
        """Return a column [N].

        Raises:
            DataError: when the file cannot be read any more.
        """
        try:
            table = self._of[name].read([name], use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise self._unreadable(error) from None
        return pl.Series(name, table.column(name))

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield all rows, a row group at a time.

        Raises:
            DataError: when the file cannot be read any more.
        """
        for group in range(self._files[0].num_row_groups):
            try:
                tables = [file.read_row_group(group, use_threads=False) for file in self._files]
            except (OSError, pa.ArrowException) as error:
                raise self._unreadable(error) from None
            yield pl.concat([pl.DataFrame(table) for table in tables], how="horizontal")

    def _unreadable(self, error: Exception) -> DataError:
        return DataError(f"{self._name}: the rows of the ledger in it cannot be read ({error}).")


class Spill:
    """Writes rows to temporary files without a name in the folder of TMPDIR: they go when nothing reads them any more.

    That holds however a process ends, too.
    """

    def __init__(self) -> None:
        """Start without a file."""
        self._files: list[Opened] = []
        self._writer: pq.ParquetWriter | None = None

    def add(self, frame: pl.DataFrame) -> None:
        """Write rows, as one row group.

        Raises:
            UsageError: when the disk has no room for them.
        """
        try:
            self._write(frame.to_arrow())
        except OSError as error:
            with suppress(OSError):
                self._end()
            raise _no_room(error) from None

    def finish(self) -> list[Run]:
        """Return what was written, a run for each set of columns and types.

        Raises:
            UsageError: when the disk has no room.
        """
        try:
            self._end()
            for opened in self._files:
                opened.file.flush()
        except OSError as error:
            raise _no_room(error) from None
        where = tempfile.gettempdir()
        return [Run(where, [Section(one, 0, os.fstat(one.file.fileno()).st_size)]) for one in self._files]

    def _write(self, table: pa.Table) -> None:
        if self._writer is not None and self._writer.schema != table.schema:
            self._end()
        if self._writer is None:
            self._files.append(Opened(tempfile.TemporaryFile(prefix="iscope-")))  # noqa: SIM115 - for as long as it is read
            texts = [field.name for field in table.schema if pa.types.is_large_string(field.type)]
            options = {"compression": "lz4", "use_dictionary": texts, "write_statistics": False}
            self._writer = pq.ParquetWriter(self._files[-1].file, table.schema, **options)
            weakref.finalize(self, _leave, self._writer)
        self._writer.write_table(table, row_group_size=max(len(table), 1))

    def _end(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            _finish(writer)


def _finish(writer: pq.ParquetWriter) -> None:
    try:
        writer.close()
    finally:
        writer.is_open = False  # or it would try once more, and print that it failed, when it is collected


def _leave(writer: pq.ParquetWriter) -> None:
    if writer.is_open:
        with suppress(OSError):
            _finish(writer)


def _close(file: IO[bytes]) -> None:
    with suppress(OSError):  # what was not written yet of a file that nobody will read
        file.close()


def _no_room(error: OSError) -> UsageError:
    folder, reason = tempfile.tempdir or "the temporary folder", error.strerror or error
    return UsageError(
        f"{folder}: cannot keep the rows of the ledger there ({reason}); set TMPDIR to a folder with more room."
    )
