"""Writing a Parquet file row group by row group, so that it is there as a whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from iscope.dump.files import local_output
from iscope.errors import UsageError


def output_path(output: str | os.PathLike[str], inputs: Iterable[str] = ()) -> Path:
    """Return the file that a path names, links resolved, before any work is done for it.

    Args:
        output: where a file is to be written; one that is there is replaced.
        inputs: files that are read meanwhile.

    Raises:
        UsageError: when no file can be written there.
    """
    shown = os.fspath(output)
    local_output(output, shown)
    path = Path(os.path.realpath(output))
    if path.is_dir():
        raise UsageError(f"{shown}: this is a folder; name a file in it.")
    if path.exists() and not path.is_file():
        raise UsageError(f"{shown}: this is a device or a pipe; name a file, which can be replaced as a whole.")
    if not path.parent.is_dir():
        raise UsageError(f"{shown}: there is no folder {str(path.parent)!r}; make it first.")
    if str(path) in {os.path.realpath(name) for name in inputs}:
        raise UsageError(f"{shown}: this file is part of the dump that is read; name another one.")
    return path


@contextmanager
def parquet_file(path: Path, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Yield a function that appends a batch as one row group; the file appears when the block ends without error.

    Args:
        path: the file, which is replaced if it is there.
        schema: of every batch.

    Raises:
        UsageError: when the file system refuses.
    """
    part = path.parent / f".iscope-{secrets.token_hex(8)}"
    try:
        with _refusals(path):
            writer = pq.ParquetWriter(part, schema, compression="zstd")
        try:
            yield lambda batch: _append(writer, batch, path)
        except BaseException:
            with suppress(OSError):
                writer.close()
            raise
        with _refusals(path):
            writer.close()
            if path.exists():
                part.chmod(stat.S_IMODE(path.stat().st_mode))
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _append(writer: pq.ParquetWriter, batch: pa.RecordBatch, path: Path) -> None:
    with _refusals(path):
        writer.write_batch(batch)


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path}: cannot write it: {error.strerror or error}.") from error
