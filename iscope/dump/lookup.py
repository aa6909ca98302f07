"""The tokens of a few rollouts, looked up once it is known which ones a report shows: ids, and text where asked for.

Only the columns of ids and text are read, and of those only the row groups that hold these rollouts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iscope.dump.dump import Dump
from iscope.dump.found import Found
from iscope.dump.frames import FrameSource
from iscope.dump.named_tokens import NO_IDS, NO_TEXT, Column, columns_of
from iscope.dump.ragged import bits
from iscope.dump.schema import KEY
from iscope.dump.table import Part, Table
from iscope.dump.where import Where
from iscope.errors import DataError

# Of the columns of one report, decoded: row groups are decoded whole, whatever they hold besides.
MOST_BYTES = 512 << 20
_BATCH_TOKENS = 2**18
_TOO_FAR = f"it stands so far into a row group that finding it would take decoding more than {MOST_BYTES >> 20} MiB"
_IN_MEMORY = "the rollout is not of a file or table: batches in memory have no token ids and no text"


@dataclass(frozen=True)
class Lookup:
    """Where a dump keeps token ids and text.

    Attributes:
        columns: where ``token_ids`` and, if asked for, ``token_texts`` and ``completion`` are.
        text: whether text was asked for.
        where: the rollouts asked for; None is all of them.
    """

    columns: Mapping[str, Column]
    text: bool
    where: Where | None = None

    @classmethod
    def of(cls, dump: Dump, named: Mapping[str, str] | None = None, *, text: bool = False) -> Lookup:
        """Find the columns; nothing but footers is read.

        Args:
            dump: the dump.
            named: which column of the dump holds what, as the user said.
            text: whether text is to be looked up too.

        Raises:
            DataError: when text is asked for and several columns could hold it, or the one named does not.
        """
        return cls(columns_of(dump, named, text=text), text, dump.where)

    def find(self, rollouts: Sequence[str]) -> dict[str, Found]:
        """Return what the dump says of the tokens of some rollouts, by their ids; it is never an error."""
        wanted = list(dict.fromkeys(rollouts))
        found = {name: self._nothing() for name in wanted}
        tables = {id(column.table): column.table for column in self.columns.values() if column.table is not None}
        left = MOST_BYTES
        for table in tables.values():
            columns = {name: column for name, column in self.columns.items() if column.table is table}
            try:
                left = self._from(table, columns, found, left)
            except DataError as error:
                found = {name: one.without(columns, str(error)) for name, one in found.items()}
        return found

    def _nothing(self) -> Found:
        """What is said of a rollout that is in no file or table."""
        whys = {name: column.why or _IN_MEMORY for name, column in self.columns.items()}
        text = whys.get("token_texts", "")
        return Found(ids_why=whys.get("token_ids", NO_IDS), text_why=text if text != NO_TEXT else whys["completion"])

    def _from(self, table: Table, columns: Mapping[str, Column], found: dict[str, Found], left: int) -> int:
        """Fill in what one table has, and return how many bytes may still be decoded."""
        rows = _rows(table, list(found), self.where)
        for name, places in rows.items():
            why = f"{len(places)} rollouts of the dump have this rollout_id" if len(places) > 1 else _TOO_FAR
            found[name] = found[name].without(columns, why)
        single = {places[0]: name for name, places in rows.items() if len(places) == 1}
        start = 0
        for index, part in enumerate(table.parts):
            names = {name: own for name, column in columns.items() if (own := column.names[index])}
            here = {row - start: name for row, name in single.items() if start <= row < start + part.source.rows}
            start += part.source.rows
            for name in here.values():
                found[name] = found[name].without(set(columns) - set(names), "its file has no such column")
            if names and here:
                read, left = _read(part, names, table.anchor, here, left)
                for row, arrays in read.items():
                    found[here[row]] = found[here[row]].filled(arrays)
        return left


def _rows(table: Table, wanted: Sequence[str], where: Where | None) -> dict[str, list[int]]:
    """The rows of the rollouts wanted, numbered through all parts."""
    key = KEY if KEY in table.columns else "rollout_id"
    names = pa.array(wanted, pa.large_string())
    rows: dict[str, list[int]] = {}
    start = 0
    for part in table.parts:
        if key in part.columns:
            for name, row in _named(replace(table, parts=(part,)), key, names, where if key != KEY else None):
                rows.setdefault(name, []).append(start + row)
        else:
            for name in wanted:
                file, _, number = name.rpartition("#")
                if file == part.source.name and number.isdecimal() and int(number) < part.source.rows:
                    rows.setdefault(name, []).append(start + int(number))
        start += part.source.rows
    return rows


def _named(table: Table, key: str, wanted: pa.Array, where: Where | None) -> Iterator[tuple[str, int]]:
    only = [key, *(where.columns if where is not None else ())]
    for block in table.blocks(_BATCH_TOKENS, only=only, where=where):
        ids = block.arrays[KEY] if key == KEY else block.ids()
        here = np.flatnonzero(bits(pc.is_in(ids, value_set=wanted)))
        yield from ((ids[int(place)].as_py(), int(block.rows[place])) for place in here)


def _read(
    part: Part, names: Mapping[str, str], anchor: str, rows: Collection[int], left: int
) -> tuple[dict[int, dict[str, pa.Array]], int]:
    """Return the columns [1] of single rows, and the bytes left to decode; rows beyond those are missing."""
    source = part.source
    flags = np.zeros(source.rows, dtype=np.bool_)
    flags[list(rows)] = True
    read: dict[int, dict[str, pa.Array]] = {}
    if left <= 0:
        return read, left
    for first, arrays in source.read(names, part.columns[anchor], _BATCH_TOKENS, flags):
        # A table in memory needs no decoding.
        left -= 0 if isinstance(source, FrameSource) else sum(array.nbytes for array in arrays.values())
        for row in np.flatnonzero(flags[first : first + len(next(iter(arrays.values())))]).tolist():
            # Taken, not sliced: a slice would keep the whole batch in memory.
            read[first + row] = {name: array.take(pa.array([row])) for name, array in arrays.items()}
        if len(read) == len(rows) or left <= 0:
            break
    return read, left
