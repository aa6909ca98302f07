"""A remote file, open for reading like a local one."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import BinaryIO

from iscope.dump.remote.ahead import Ahead, Range
from iscope.dump.remote.failures import NoRangesError, ShortReadError, attempt
from iscope.dump.remote.stores import Handle, store_of
from iscope.dump.remote.urls import Location, RemoteName, located
from iscope.errors import UsageError

_BUFFER = 1 << 20


class RemoteFile(io.RawIOBase):
    """The bytes of a remote file; a failure is retried, and then one sentence.

    Attributes:
        size: bytes.
    """

    def __init__(self, name: RemoteName) -> None:
        """Open it; nothing but its size is read.

        Raises:
            DataError: when it is not there, or cannot be opened.
        """
        super().__init__()
        self._open = False
        self._place = located(name.url)
        self._handle = _opened(self._place, name.size, name.stamp)
        self.size = self._handle.size
        self._ahead: Ahead | None = None
        self._at = 0
        self._open = True

    def expect(self, ranges: Sequence[Range], streams: int = 1) -> None:
        """Fetch these ranges ahead of the reader from now on.

        Args:
            ranges: bytes, from a place to before another one.
            streams: how many readers go through them side by side.
        """
        self._ahead = Ahead(self.fetch, ranges, streams)

    def fetch(self, start: int, stop: int) -> bytes:
        """Return the bytes from ``start`` to before ``stop``, by requests of their own.

        Raises:
            DataError: when they do not come.
        """
        return attempt(self._place, lambda: self._fetch(start, stop), lambda: self._open)

    def _fetch(self, start: int, stop: int) -> bytes:
        if stop <= start:
            return b""
        found = self._handle.read(start, stop)
        if len(found) > stop - start:
            raise NoRangesError
        if len(found) < stop - start:
            raise ShortReadError(f"the connection ended after {len(found):,} of {stop - start:,} bytes")
        return found

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill a buffer, as far as the file goes."""
        start, stop = self._at, min(self._at + len(buffer), self.size)
        if stop <= start:
            return 0
        found = self.fetch(start, stop) if self._ahead is None else self._ahead.read(start, stop)
        buffer[: len(found)] = found
        self._at = stop
        return len(found)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        return self._at

    def tell(self) -> int:
        """Return the place."""
        return self._at

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Let go of the file, and of what is being fetched."""
        if self._open:
            self._open = False
            if self._ahead is not None:
                self._ahead.close()
        super().close()


@lru_cache(maxsize=8192)
def _opened(place: Location, size: int | None, stamp: str) -> Handle:  # noqa: ARG001 - they tell whether it is the same
    """Open a file; opening it again takes no request."""
    store = store_of(place)
    return attempt(place, lambda: store.open(place.path))


def forget_files() -> None:
    """Let go of all files that were open."""
    _opened.cache_clear()


@contextmanager
def open_binary(path: str) -> Iterator[BinaryIO]:
    """Open a file, local or remote, to be read from its start to its end."""
    if not isinstance(path, RemoteName):
        with open(path, "rb") as file:
            yield file
        return
    with RemoteFile(path) as remote, io.BufferedReader(remote, _BUFFER) as buffered:
        remote.expect([(0, remote.size)])
        yield buffered


@contextmanager
def on_disk(path: str) -> Iterator[str]:
    """Yield the path of a file on this machine: the file itself, or a temporary copy of a remote one.

    Raises:
        UsageError: when the temporary folder has no room.
    """
    if not isinstance(path, RemoteName):
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="iscope-") as copy:
        try:
            with open_binary(path) as file:
                shutil.copyfileobj(file, copy, _BUFFER)
            copy.flush()
        except OSError as error:
            raise UsageError(
                f"{copy.name}: cannot keep a copy of {path} there ({error.strerror or error}); set TMPDIR to a folder "
                "with more room."
            ) from None
        yield copy.name


def first_bytes(path: str, count: int) -> bytes:
    """Return the first bytes of a file, local or remote."""
    if isinstance(path, RemoteName):
        with RemoteFile(path) as file:
            return file.fetch(0, min(count, file.size))
    with open(path, "rb") as local:
        return local.read(count)


def size_of(path: str) -> int:
    """Return the bytes of a file, local or remote; 0 where it is a table in memory."""
    if isinstance(path, RemoteName):
        if path.size is not None:
            return path.size
        with RemoteFile(path) as file:
            return file.size
    return os.path.getsize(path) if os.path.isfile(path) else 0
