"""Units: what a dump is cut into where several processes measure it, a file and a range of its row groups each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa

from iscope.dump.dump import Dump
from iscope.dump.files import is_remote
from iscope.dump.pairing import Pairing
from iscope.dump.parquet import ParquetSource
from iscope.dump.ragged import Flags
from iscope.dump.table import Part, Table
from iscope.dump.where import Bound
from iscope.errors import UsageError

# Small row groups are joined up to so many tokens: units cost a task's overhead, or a line in a list, each.
TOKENS = 2**16
# Footers read at a time: far away, each is a wait and little else.
_READERS = 16
# From so many files for each reader on they need not be cut: their footers would be read once more.
_FILES = 8


@dataclass(frozen=True)
class Unit:
    """Adjacent row groups of one file.

    Attributes:
        file: its path, as it was named.
        size: its bytes.
        groups: the first row group, and the one after the last.
        first: number of the first row in the file.
        rows: rows in them.
        tokens: tokens in them.
    """

    file: str
    size: int
    groups: tuple[int, int]
    first: int
    rows: int
    tokens: int

    @property
    def id(self) -> str:
        """What tells it from others, whatever else is in the file: 16 hexadecimal digits."""
        text = json.dumps([self.file, self.size, *self.groups])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        """Return the file and the rows, for a sentence."""
        return f"{self.file} rows {self.first:,} to {self.first + self.rows - 1:,}"


def units_of(dump: Dump) -> list[Unit]:
    """Cut a dump into units, in its order, by its footers alone.

    Raises:
        UsageError: when it cannot be cut: two sides, files that are no Parquet, tables in memory.
        DataError: when a file cannot be read.
    """
    table = _table(dump)
    with ThreadPoolExecutor(_READERS) as pool:
        return list(chain.from_iterable(pool.map(lambda part: _of_part(part, table.anchor), table.parts)))


def dump_of(dump: Dump, units: Sequence[Unit]) -> Dump:
    """Return the part of a dump that some of its units are, in their order; it may be empty."""
    table = _table(dump)
    by_file = {part.source.name: part for part in table.parts}
    parts = tuple(_restricted(by_file[unit.file], unit) for unit in _joined(units))
    return replace(dump, content=replace(table, parts=parts))


def side_by_side(dump: Dump, count: int) -> list[Dump]:
    """Return up to ``count`` parts of a dump that together are all of it, to be read at the same time.

    What must be read in order, or comes from elsewhere than Parquet files on this machine, stays as one.
    """
    table = dump.content
    if count < 2 or dump.strict or dump.ready or not isinstance(table, Table) or not all(map(_is_here, table.parts)):
        return [dump]
    if len(table.parts) < _FILES * count:
        units = units_of(dump)
        shards = [shard for index in range(1, count + 1) if (shard := shard_of(units, index, count))]
        return [dump_of(dump, shard) for shard in shards] if len(shards) > 1 else [dump]
    ends = np.linspace(0, len(table.parts), count + 1).astype(int).tolist()
    return [replace(dump, content=replace(table, parts=table.parts[a:b])) for a, b in pairwise(ends)]


def elsewhere(dump: Dump) -> Dump:
    """Return a dump as another machine reads it, whose files need not be of the same time."""
    table = _table(dump)
    return replace(dump, content=replace(table, parts=tuple(map(_undated, table.parts))))


def digest_of(dump: Dump, units: Collection[Unit]) -> str:
    """Return what tells a dump, and how it is read, from others: 16 hexadecimal digits."""
    columns = {part.source.name: dict(part.columns) for part in _table(dump).parts}
    read = {
        "units": sorted(unit.id for unit in units),
        "columns": columns,
        "carried": dump.carried,
        "where": None if dump.where is None else dump.where.text,
        "strict": dump.strict,
        "assumptions": dump.assumptions,
    }
    return hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()[:16]


def shard_of(units: Sequence[Unit], index: int, count: int) -> list[Unit]:
    """Return the units of one of ``count`` shards, numbered from 1: neighbours, and about as many tokens in each.

    Every unit is in one shard. A shard has none where there are fewer units than shards.
    """
    ends = np.cumsum([max(unit.tokens, 1) for unit in units])
    if not len(ends):
        return []
    starts = np.concatenate([[0], ends[:-1]])
    shards = ((starts + ends) * count // (2 * ends[-1])).tolist()
    return [unit for unit, shard in zip(units, shards, strict=True) if min(shard, count - 1) == index - 1]


def _table(dump: Dump) -> Table:
    if isinstance(dump.content, Pairing):
        raise UsageError(
            "a dump of two sides is joined by its rollouts' ids, which takes all of it: join it first "
            "(iscope convert --trainer FILE --vllm FILE joined.parquet), and measure that in parts."
        )
    if dump.ready or dump.content is None:
        raise UsageError("batches in memory cannot be measured in parts; write them to Parquet files first.")
    for part in dump.content.parts:
        if not isinstance(part.source, ParquetSource | _UnitSource):
            raise UsageError(
                f"{part.source.name}: only Parquet files with one row per rollout can be measured in parts; make it "
                "one first (iscope convert)."
            )
    return dump.content


def _is_here(part: Part) -> bool:
    return isinstance(part.source, ParquetSource) and not is_remote(part.source.name)


def _undated(part: Part) -> Part:
    assert isinstance(part.source, ParquetSource)
    return replace(part, source=replace(part.source, modified=0))


def _of_part(part: Part, anchor: str) -> list[Unit]:
    source, units = part.source, []
    assert isinstance(source, ParquetSource)
    start, first, rows, held = 0, 0, 0, 0
    groups = source.groups(part.columns[anchor])
    for index, (group_rows, group_tokens) in enumerate(groups):
        rows, held = rows + group_rows, held + group_tokens
        if held >= TOKENS or index == len(groups) - 1:
            units.append(Unit(source.name, source.size, (start, index + 1), first, rows, held))
            start, first, rows, held = index + 1, first + rows, 0, 0
    return units


def _joined(units: Sequence[Unit]) -> list[Unit]:
    """Units that follow on each other as one, so that their file is opened once."""
    joined: list[Unit] = []
    for unit in units:
        last = joined[-1] if joined else None
        if last is not None and last.file == unit.file and last.groups[1] == unit.groups[0]:
            groups = (last.groups[0], unit.groups[1])
            joined[-1] = replace(last, groups=groups, rows=last.rows + unit.rows, tokens=last.tokens + unit.tokens)
        else:
            joined.append(unit)
    return joined


def _restricted(part: Part, unit: Unit) -> Part:
    assert isinstance(part.source, ParquetSource)
    return replace(part, source=_UnitSource(part.source, unit))


@dataclass(frozen=True)
class _UnitSource:
    """The rows of one unit as a source: those of the file, by their numbers there."""

    file: ParquetSource
    unit: Unit

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def rows(self) -> int:
        return self.unit.rows

    @property
    def size(self) -> int:
        return self.file.size

    @property
    def schema(self) -> pa.Schema:
        return self.file.schema

    def read(
        self, columns: Mapping[str, str], anchor: str, batch_tokens: int, wanted: Flags | None = None
    ) -> Iterator[tuple[int, dict[str, pa.Array]]]:
        flags = np.zeros(self.file.rows, dtype=np.bool_)
        flags[self._rows] = True if wanted is None else wanted
        return self.file.read(columns, anchor, batch_tokens, flags)

    def possible(self, bounds: Sequence[Bound]) -> Flags:
        return self.file.possible(bounds)[self._rows]

    @property
    def _rows(self) -> slice:
        return slice(self.unit.first, self.unit.first + self.unit.rows)
