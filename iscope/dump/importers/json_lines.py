"""JSON lines, and small files of one JSON value, as a stream of records that costs bounded memory."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import pyarrow as pa

from iscope.dump.remote.file import open_binary
from iscope.errors import DataError

# A line of 128k tokens and fifteen columns takes about 40 MiB; as Python objects, up to ten times that.
MAX_LINE = 64 << 20
# Lists and objects cost most of all for their size; a rollout with a top-20 per token has some 3 a token.
MAX_CONTAINERS = 2_000_000
MAX_LISTS = 4_000_000
MAX_VALUES = 8_000_000

_ZSTD, _GZIP = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"
_BLANK = b" \t\r\n"


def records(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a file and where they stand: one a line, or the elements of one JSON list.

    Lines may be gzip- or zstd-compressed. ``NaN`` and ``Infinity`` are read, as Python writes them.

    Raises:
        DataError: when a line is no JSON object, is too long to be a rollout, or the file cannot be read.
    """
    with _opened(path) as file:
        first = _first_line(file, path)
        whole = _whole(first, file, path)
        if whole is not None:
            yield from whole
            return
        number = first[0]
        line = first[1]
        while line:
            if line.strip(_BLANK):
                yield f"line {number}", _object(path, f"line {number}", line)
            number, line = number + 1, _line(file, path, number + 1)


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    try:
        with open_binary(path) as plain:
            magic = plain.read(4)
            plain.seek(0)
            if magic.startswith(_GZIP):
                with gzip.open(plain) as file:
                    yield file  # type: ignore[misc]
            elif magic == _ZSTD:
                with io.BufferedReader(pa.CompressedInputStream(plain, "zstd"), 1 << 20) as file:
                    yield file
            else:
                yield plain
    except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
        reason = str(getattr(error, "strerror", None) or error).split("\n")[0].rstrip(".")
        raise DataError(f"{path}: cannot be read ({reason}); it may be truncated or damaged.") from None


def _line(file: IO[bytes], path: str, number: int) -> bytes:
    line = file.readline(MAX_LINE + 1)
    if len(line) > MAX_LINE:
        raise DataError(f"{path}: line {number} is longer than {MAX_LINE >> 20} MiB: no line of a rollout is.")
    return line


def _first_line(file: IO[bytes], path: str) -> tuple[int, bytes]:
    number, line = 1, _line(file, path, 1)
    while line and not line.strip(_BLANK):
        number, line = number + 1, _line(file, path, number + 1)
    return number, line


def _whole(first: tuple[int, bytes], file: IO[bytes], path: str) -> list[tuple[str, dict[str, Any]]] | None:
    """The records of a file that is one JSON list, or one object over several lines; None where it is lines."""
    start = first[1].lstrip(_BLANK)
    if not start.startswith(b"[") and start.strip(_BLANK) != b"{":
        return None
    text = first[1] + file.read(MAX_LINE)
    if len(text) >= MAX_LINE:
        raise DataError(f"{path}: one JSON value of more than {MAX_LINE >> 20} MiB; write one rollout a line.")
    value = _value(path, "the file", text)
    items = value if isinstance(value, list) else [value]
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            raise DataError(f"{path}: item {index + 1} is no JSON object; write one object for each rollout.")
    return [(f"item {index + 1}", item) for index, item in enumerate(items)]


def _object(path: str, place: str, line: bytes) -> dict[str, Any]:
    value = _value(path, place, line)
    if not isinstance(value, dict):
        raise DataError(f"{path}: {place} is no JSON object; write one object for each rollout.")
    return value


def _value(path: str, place: str, text: bytes) -> Any:
    if text.count(b"{") > MAX_CONTAINERS or text.count(b"[") > MAX_LISTS or text.count(b",") > MAX_VALUES:
        raise DataError(f"{path}: {place} holds more values, lists or objects than a rollout has.")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).split(":")[0]
        raise DataError(f"{path}: {place} is not JSON ({reason}); it may be unfinished or damaged.") from None


def looks_like_json(path: str) -> bool:
    """Return whether a file starts as JSON, its compression undone."""
    try:
        with _opened(path) as file:
            return file.read(4096).lstrip(b"\xef\xbb\xbf" + _BLANK)[:1] in (b"{", b"[")
    except (DataError, OSError):
        return False
