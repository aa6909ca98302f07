"""From a path to a source: Parquet as it is, anything else by the importer that knows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import polars as pl
import pyarrow as pa

from iscope.dump.files import SUFFIXES, is_remote
from iscope.dump.importers import json_lines, long_form
from iscope.dump.importers.formats import Format, Rows, formats_named
from iscope.dump.importers.imported import ImportedSource
from iscope.dump.importers.spool import Spool
from iscope.dump.parquet import ParquetSource, readable
from iscope.dump.parquet_file import open_parquet
from iscope.dump.remote.file import first_bytes, on_disk
from iscope.dump.source import RowSource
from iscope.errors import DataError

_PARQUET, _ZIP, _PICKLE = b"PAR1", b"PK\x03\x04", b"\x80"
_LONG = Format("long", "long_form", "parquet", r".", "one row per token", exact=True)


class UnknownFormatError(DataError):
    """A file that is of no format that iscope knows."""


def open_source(path: str, named: str | None = None) -> RowSource:
    """Open one file of a dump.

    Args:
        path: the file.
        named: the format that the user says it has; None finds out.

    Raises:
        UsageError: when there is no such format.
        DataError: when the file cannot be read, or is of no format that is known.
    """
    formats = formats_named(named)
    by_name = named == "parquet" or (named is None and path.endswith(SUFFIXES))
    magic = b"" if by_name and is_remote(path) else _magic(path)  # each look at a remote file takes its time
    if by_name or magic == _PARQUET:
        return _parquet(path, formats)
    if magic == _ZIP:
        return _whole(path, [item for item in formats if item.container == "torch"], named)
    if magic.startswith(_PICKLE):
        return _whole(path, [item for item in formats if item.container == "pickle"], named)
    if json_lines.looks_like_json(path):
        return _lines(path, [item for item in formats if item.container == "json"], named)
    if named is None:
        raise UnknownFormatError(
            f"{path}: this is no dump that iscope can read: neither Parquet, nor JSON lines, nor a torch file or "
            "pickle of a known framework; it may be truncated or damaged."
        )
    raise UnknownFormatError(f"{path}: this is no file of {named} ({_about(formats)}).")


def open_table(table: pa.Table, name: str) -> RowSource | None:
    """Gather a table in memory that has one row per token; None where it has one per rollout."""
    if not long_form.is_long(table.schema):
        return None
    return _gathered(iter([table]), name)


def _magic(path: str) -> bytes:
    try:
        return first_bytes(path, 4)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None


def _parquet(path: str, formats: Sequence[Format]) -> RowSource:
    source = ParquetSource.open(path)
    if any(item.name == "long" for item in formats) and long_form.is_long(source.schema):
        try:
            return _gathered(_token_rows(path), path)
        except long_form.ScatteredError:
            return _gathered(iter([_sorted(path)]), path)
    for item in formats:
        if item.container == "parquet" and item.recognises(dict.fromkeys(source.schema.names)):
            return _spooled(path, item, item.rollouts(_rows_of(path), path, _ignored))
    return source


def _rows_of(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    row = 0
    with readable(path), open_parquet(path) as (file, _):
        for batch in file.iter_batches(256):
            for values in batch.to_pylist():
                yield f"row {row}", values
                row += 1


def _token_rows(path: str) -> Iterator[pa.Table]:
    with readable(path), open_parquet(path) as (file, _):
        for batch in file.iter_batches(1 << 18, use_threads=False):
            yield pa.Table.from_batches([batch])


def _sorted(path: str) -> pa.Table:
    with on_disk(path) as file:
        return _sorted_file(path, pl.scan_parquet(file, hive_partitioning=False))


def _sorted_file(path: str, frame: pl.LazyFrame) -> pa.Table:
    names = frame.collect_schema().names()
    by = [next(name for name in long_form.IDS if name in names)]
    try:
        return (
            frame.sort([*by, *(name for name in long_form.POSITIONS if name in names)][:2], maintain_order=True)
            .collect(engine="streaming")
            .to_arrow()
        )
    except pl.exceptions.PolarsError as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise DataError(f"{path}: its rows cannot be sorted by rollout ({reason}).") from None


def _gathered(tables: Iterator[pa.Table], name: str) -> ImportedSource:
    said: list[str] = []
    return _spooled(name, _LONG, long_form.gathered(tables, name, said.append), said)


def _lines(path: str, formats: Sequence[Format], named: str | None) -> ImportedSource:
    records = json_lines.records(path)
    first = next(records, None)
    if first is None:
        raise DataError(f"{path}: the dump is empty, it has no rollouts; check that the run wrote any.")
    chosen = _recognised(path, first[1], formats, named)
    said: list[str] = []
    return _spooled(path, chosen, chosen.rollouts(chain([first], records), path, said.append), said)


def _whole(path: str, formats: Sequence[Format], named: str | None) -> ImportedSource:
    from iscope.dump.importers.loaded import load

    content = load(path)
    chosen = _recognised(path, content, formats, named)
    said: list[str] = []
    return _spooled(path, chosen, chosen.rollouts(content, path, said.append), said)


def _recognised(path: str, content: Any, formats: Sequence[Format], named: str | None) -> Format:
    for item in formats:
        if item.recognises(content):
            return item
    shown = ", ".join(" ".join(str(name).split())[:40] for name in list(content)[:12])
    what = "of no format that iscope knows" if named is None else f"no file of {named} ({_about(formats_named(named))})"
    raise UnknownFormatError(f"{path}: it is {what}; it holds: {shown}.")


def _about(formats: Sequence[Format]) -> str:
    return ", ".join(item.about for item in formats)


def _spooled(path: str, chosen: Format, rows: Rows, said: Sequence[str] = ()) -> ImportedSource:
    spool = Spool(path, chosen.floats, one_advantage=chosen.name != "jsonl")
    for place, values in rows:
        spool.add(place, values)
    return spool.finish(chosen.name, list(dict.fromkeys(said)))


def _ignored(sentence: str) -> None:
    """Take a sentence that is not for the report."""
