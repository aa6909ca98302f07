"""Many sources of one side as one stream of blocks, with the same columns and types throughout."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from iscope.dump.arrow_types import cast, unify
from iscope.dump.ragged import Flags, Int64s, lengths_of
from iscope.dump.remote.started import started
from iscope.dump.remote.urls import RemoteName
from iscope.dump.resolve import is_list, missing_column, resolve
from iscope.dump.schema import KEY, STRICT
from iscope.dump.source import RowSource
from iscope.dump.where import Where
from iscope.errors import DataError

Read: TypeAlias = Iterator[tuple[int, dict[str, pa.Array]]]


@dataclass(frozen=True)
class Block:
    """Some rows of one source.

    Attributes:
        file: the source's name.
        rows: int64 [N], the rows' numbers in it.
        arrays: Arrow arrays [N] by canonical (or carried) name.
        start: rows of the sources before this one.
    """

    file: str
    rows: Int64s
    arrays: dict[str, pa.Array]
    start: int = 0

    def __len__(self) -> int:
        """Return N, the number of rows."""
        return len(self.rows)

    def filter(self, keep: Flags) -> Block:
        """Return the rows [M] whose flag is set."""
        flags = pa.array(keep)
        arrays = {name: array.filter(flags) for name, array in self.arrays.items()}
        return replace(self, rows=self.rows[keep], arrays=arrays)

    def where(self, condition: Where | None) -> Block:
        """Return the rows [M] that meet a condition."""
        if condition is None:
            return self
        keep = condition.flags(self.frame(condition.columns))
        return self if keep.all() else self.filter(keep)

    def frame(self, columns: Sequence[str]) -> pl.DataFrame:
        """Return the rollout ids and some other columns, those it has, [N]."""
        found = [pl.Series(name, self.arrays[name]) for name in columns if name in self.arrays and name != "rollout_id"]
        return pl.DataFrame([pl.Series("rollout_id", self.ids()), *found])

    def ids(self) -> pa.Array:
        """Return String [N]: the rollout ids of the dump, and file#row where it has none."""
        ids = self.arrays.get("rollout_id")
        if ids is not None and ids.null_count == 0:
            return ids
        rows = pa.array(self.rows).cast(pa.large_string())
        file, hash_sign = (pa.scalar(text, pa.large_string()) for text in (self.file, "#"))
        default = pc.binary_join_element_wise(file, rows, hash_sign)
        return default if ids is None else pc.coalesce(ids, default)


@dataclass(frozen=True)
class Part:
    """A source, and which of its columns holds which canonical (or carried) column."""

    source: RowSource
    columns: dict[str, str]


@dataclass(frozen=True)
class Table:
    """The sources of one side, or of a dump that has both sides in each row.

    Attributes:
        parts: the sources, in reading order, those without rows left out.
        types: the Arrow type of each column, one for all parts.
        anchor: the canonical column that the other list columns of a row must match in length.
    """

    parts: tuple[Part, ...]
    types: dict[str, pa.DataType]
    anchor: str

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return sum(part.source.rows for part in self.parts)

    @property
    def columns(self) -> frozenset[str]:
        """The canonical and carried columns it has."""
        return frozenset(self.types)

    def locate(self, row: int) -> tuple[str, int]:
        """Return the file of a row that is numbered through all parts, and its number in that file."""
        starts = np.cumsum([0, *(part.source.rows for part in self.parts)])
        index = int(np.searchsorted(starts, row, side="right")) - 1
        return self.parts[index].source.name, row - int(starts[index])

    def nothing(self) -> Block:
        """Return a block of no rows that has every column."""
        arrays = {name: pa.array([], kind) for name, kind in self.types.items()}
        return Block("", np.zeros(0, dtype=np.int64), arrays)

    def possible(self, where: Where, columns: Container[str]) -> Flags:
        """Return bool [rows]: False for rows that are known not to meet a condition, by these columns alone."""
        found = []
        for part in self.parts:
            bounds = where.bounds_of({name: own for name, own in part.columns.items() if name in columns})
            found.append(part.source.possible(bounds) if bounds else np.ones(part.source.rows, dtype=np.bool_))
        return np.concatenate([np.zeros(0, dtype=np.bool_), *found])

    def blocks(
        self,
        batch_tokens: int,
        only: Sequence[str] | None = None,
        where: Where | None = None,
        wanted: Flags | None = None,
    ) -> Iterator[Block]:
        """Yield the rows in order, about ``batch_tokens`` tokens at a time.

        Args:
            batch_tokens: tokens to aim at.
            only: the columns to read; None reads all.
            where: the rows to yield; None yields all.
            wanted: bool [rows], rows that must be read, others may be; None is all.

        Raises:
            DataError: when lists of one row differ in length, or a file cannot be read.
        """
        types = {name: kind for name, kind in self.types.items() if only is None or name in only}
        if wanted is None and where is not None and where.bounds:
            wanted = self.possible(where, self.columns)
        start = 0
        for part, read in self._reads(types, batch_tokens, wanted):
            for first, arrays in read:
                block = replace(_block(part.source.name, first, arrays, types), start=start).where(where)
                if len(block):
                    _check_lengths(block, self.anchor, part.columns)
                    yield block
            start += part.source.rows

    def _reads(self, types: Container[str], batch_tokens: int, wanted: Flags | None) -> Iterator[tuple[Part, Read]]:
        """Yield each part with an iterator over some of its columns; remote files are begun ahead of time."""

        def read(part: Part, start: int) -> Read:
            columns = {name: column for name, column in part.columns.items() if name in types}
            flags = None if wanted is None else wanted[start : start + part.source.rows]
            return part.source.read(columns, part.columns[self.anchor], batch_tokens, flags)

        starts = accumulate((part.source.rows for part in self.parts), initial=0)
        reads = (read(part, start) for part, start in zip(self.parts, starts, strict=False))
        remote = any(isinstance(part.source.name, RemoteName) for part in self.parts)
        yield from zip(self.parts, started(reads) if remote else reads, strict=True)


def open_table(
    sources: Sequence[RowSource],
    wanted: Sequence[str],
    *,
    anchor: str,
    needed: Sequence[str],
    overrides: Mapping[str, str],
    carry: Sequence[str] = (),
    side: str | None = None,
    key: str | None = None,
) -> Table:
    """Recognise the columns of every source and agree on one type for each.

    Args:
        sources: the sources of one side.
        wanted: canonical columns to look for.
        anchor: the column that gives a row its length.
        needed: canonical columns that every source must have.
        overrides: canonical column to source column, as the user said.
        carry: further columns to take along where a source has them.
        side: the side the sources belong to, if they belong to one.
        key: the column to pair on, kept as ``KEY``.
    """
    parts = []
    for source in sources:
        if source.rows == 0:
            continue
        schema, name = source.schema, source.name
        columns = resolve(name, schema, wanted, needed=needed, overrides=overrides, side=side)
        if key is not None:
            columns[KEY] = _key_column(source, key, columns)
        columns |= {column: column for column in carry if column not in columns and column in schema.names}
        parts.append(Part(source, columns))
    _check_uniform(parts)
    return Table(tuple(parts), _types(parts), anchor)


def _key_column(source: RowSource, key: str, columns: Mapping[str, str]) -> str:
    name = columns.get(key, key)
    if name not in source.schema.names:
        missing = missing_column(source.name, source.schema.names, key)
        raise DataError(f"{missing[:-1]}; choose the column to pair on with --on NAME.")
    return name


def _check_uniform(parts: Sequence[Part]) -> None:
    for column in STRICT:
        having = [part for part in parts if column in part.columns]
        if having and len(having) < len(parts):
            lacking = next(part for part in parts if column not in part.columns)
            raise DataError(
                f"{lacking.source.name}: there is no {column}, but {having[0].source.name} has one "
                f"({having[0].columns[column]!r}); read them apart, or leave it out with --columns {column}=."
            )


def _types(parts: Sequence[Part]) -> dict[str, pa.DataType]:
    kinds: dict[str, dict[str, pa.DataType]] = {}
    for part in parts:
        for column, name in part.columns.items():
            kinds.setdefault(column, {})[part.source.name] = part.source.schema.field(name).type
    return {column: unify(column, found) for column, found in kinds.items()}


def _block(file: str, first: int, arrays: Mapping[str, pa.Array], types: Mapping[str, pa.DataType]) -> Block:
    rows = len(next(iter(arrays.values())))
    made = {
        name: cast(file, name, arrays[name], kind) if name in arrays else pa.nulls(rows, kind)
        for name, kind in types.items()
    }
    return Block(file, np.arange(first, first + rows, dtype=np.int64), made)


def _check_lengths(block: Block, anchor: str, names: Mapping[str, str]) -> None:
    if anchor not in block.arrays:
        return
    expected = lengths_of(block.arrays[anchor])
    for column in STRICT:
        array = block.arrays.get(column)
        if array is None or column == anchor or not is_list(array.type):
            continue
        differs = pc.not_equal(lengths_of(array), expected)
        if pc.any(differs).as_py():
            at = pc.index(differs, value=True).as_py()
            raise DataError(
                f"{block.file}: row {block.rows[at]}: {names[column]!r} has {lengths_of(array)[at]} tokens and "
                f"{names[anchor]!r} {expected[at]}; write both for the same tokens, without padding."
            )
