"""Opening a Parquet file; of a remote one the footer is kept, and what will be read is fetched ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from iscope.dump.remote.ahead import Range
from iscope.dump.remote.file import RemoteFile
from iscope.dump.remote.urls import RemoteName
from iscope.errors import DataError

Expect: TypeAlias = Callable[[Sequence[str], Sequence[int]], None]

# Footers that are read at the same time; most of the time each waits for its server.
_FOOTERS = 16
# Footers that are kept.
_KEPT = 4096
_OPENING = Lock()


def read_footer(path: str) -> pq.FileMetaData:
    """Return what a Parquet file says of itself.

    Raises:
        DataError: when a remote file cannot be read.
        OSError: and what else pyarrow raises of a local one, or of one that is no Parquet.
    """
    if isinstance(path, RemoteName):
        return _remote_footer(path, path.url, path.size, path.stamp)
    with pq.ParquetFile(path) as file:
        return file.metadata


def read_footers(paths: Sequence[str]) -> None:
    """Read the footers of the remote files among some, many at a time, so that they are there when asked for.

    A file that is no Parquet is left to whoever asks for its footer.

    Raises:
        DataError: when one cannot be read over the network.
    """
    remote = [path for path in paths[:_KEPT] if isinstance(path, RemoteName)]
    if len(remote) < 2:
        return
    with ThreadPoolExecutor(_FOOTERS, thread_name_prefix="iscope-footer") as pool:
        for done in [pool.submit(read_footer, path) for path in remote]:
            if isinstance(error := done.exception(), DataError):
                pool.shutdown(cancel_futures=True)
                raise error


@contextmanager
def open_parquet(path: str, **options: Any) -> Iterator[tuple[pq.ParquetFile, Expect]]:
    """Open a Parquet file.

    Args:
        path: the file.
        options: of ``pq.ParquetFile``.

    Yields:
        The file, and a function that takes the columns and the row groups that will be read, in that order.
    """
    if not isinstance(path, RemoteName):
        with _in_system_memory(path, **options) as file:
            yield file, _ignored
        return
    footer = read_footer(path)
    with RemoteFile(path) as remote, pq.ParquetFile(remote, metadata=footer, **options) as file:
        yield file, lambda names, groups: remote.expect(_ranges(footer, names, groups), len(_leaves(footer, names)))


def _in_system_memory(path: str, **options: Any) -> pq.ParquetFile:
    """Open a file whose columns are to grow in memory of the C library.

    Arrow's own allocator clears whole huge pages whenever a column outgrows its memory, which took a tenth of an
    analysis. The pool is bound when a file is opened; the one of the process is as it was.
    """
    with _OPENING:
        before = pa.default_memory_pool()
        pa.set_memory_pool(pa.system_memory_pool())
        try:
            return pq.ParquetFile(path, **options)
        finally:
            pa.set_memory_pool(before)


@lru_cache(maxsize=_KEPT)
def _remote_footer(path: RemoteName, url: str, size: int | None, stamp: str) -> pq.FileMetaData:  # noqa: ARG001
    """The footer of a file; its URL, size and stamp tell whether it is the same one."""
    with RemoteFile(path) as remote, pq.ParquetFile(remote) as file:
        return file.metadata


def _ignored(names: Sequence[str], groups: Sequence[int]) -> None:
    """The operating system reads ahead by itself."""


def _ranges(footer: pq.FileMetaData, names: Sequence[str], groups: Sequence[int]) -> list[Range]:
    """The bytes of some columns in some row groups."""
    leaves = _leaves(footer, names)
    found = []
    for group in map(footer.row_group, groups):
        for chunk in (group.column(leaf) for leaf in leaves):
            start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
            found.append((min(start, chunk.data_page_offset), start + chunk.total_compressed_size))
    return found


def _leaves(footer: pq.FileMetaData, names: Sequence[str]) -> list[int]:
    paths = (f"{footer.schema.column(index).path}." for index in range(footer.num_columns))
    return [index for index, path in enumerate(paths) if any(path.startswith(f"{name}.") for name in names)]
