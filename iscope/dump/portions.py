"""Parts of an opened dump: some of its files, read as they are read within the whole."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import polars as pl

from iscope.dump.dump import Dump
from iscope.dump.matching import keys_of
from iscope.dump.pairing import Pairing
from iscope.dump.table import Table
from iscope.dump.tally import Tally

Parts = dict[str, Table]

_BATCH_TOKENS = 2**20
_NO_KEYS = pl.DataFrame(schema={"key": pl.UInt64, "side": pl.String, "file": pl.String})


def portion(dump: Dump, files: Collection[str]) -> Dump:
    """Return some files of a dump as a dump of their own; columns and types are those of the whole.

    Args:
        dump: the dump, opened.
        files: names of its files.
    """
    content = dump.content
    if isinstance(content, Pairing):
        content = replace(content, tables={side: _some(table, files) for side, table in content.tables.items()})
    elif content is not None:
        content = _some(content, files)
    here = [file for file in dump.files if file.path in files]
    return replace(dump, files=here, content=content, ready=(), tally=Tally())


def shape(dump: Dump) -> tuple[object, ...]:
    """Return what decides how the files of a dump are read: where it changes, parts read before do not fit any more."""
    return (dump.present, {side: table.types for side, table in tables_of(dump).items()})


def tables_of(dump: Dump) -> Parts:
    """Return the tables of a dump by side; one without a side where rows hold both."""
    if isinstance(dump.content, Pairing):
        return dict(dump.content.tables)
    return {} if dump.content is None else {"": dump.content}


def groups(dump: Dump) -> list[tuple[frozenset[str], bool, frozenset[int]]]:
    """Return which files of a paired dump belong together, since rollouts of theirs are the same.

    Args:
        dump: the dump, whose key columns are read.

    Returns:
        The files of each group, whether it has files of every side, and the hashes of its keys.
    """
    tables = tables_of(dump)
    rows = pl.concat([_NO_KEYS, *_keys(tables)])
    sharing = rows.group_by("key").agg(files=pl.col("file").unique().sort().str.join("\0"))["files"].unique()
    together: list[frozenset[str]] = []
    for files in (frozenset(text.split("\0")) for text in sharing.sort()):
        touched = [group for group in together if group & files]
        together = [group for group in together if not group & files] + [files.union(*touched)]
    ordered = sorted(together, key=sorted)
    return [_described(rows.filter(pl.col("file").is_in(list(files))), files, set(tables)) for files in ordered]


def _some(table: Table, files: Collection[str]) -> Table:
    return replace(table, parts=tuple(part for part in table.parts if part.source.name in files))


def _keys(tables: Parts) -> Iterator[pl.DataFrame]:
    for side, table in tables.items():
        for part in table.parts:
            own = keys_of(side, replace(table, parts=(part,)), _BATCH_TOKENS).drop_nulls("key")
            yield own.select(pl.col("key").hash(), "side", file=pl.lit(part.source.name))


def _described(
    rows: pl.DataFrame, files: frozenset[str], sides: set[str]
) -> tuple[frozenset[str], bool, frozenset[int]]:
    return files, set(rows["side"].unique()) == sides, frozenset(rows["key"].to_list())
