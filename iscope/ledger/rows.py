"""Rows of a ledger, read a column at a time: those in memory and those in files answer alike."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import polars as pl

from iscope.ledger.memory import release

Array = np.ndarray[Any, np.dtype[Any]]
T = TypeVar("T")

# Bytes of columns that were read from files, or put in order, and may be asked for again; of columns that are larger so
# many, since each is made anew otherwise whenever a figure asks for it.
RECENT, _COLUMNS = 2**25, 5
# Bytes that are let go of before memory is given back.
_RELEASED = 2**28


class Piece(Protocol):
    """Some rows, stored in one place and in an order of their own."""

    @property
    def schema(self) -> pl.Schema:
        """Names and types of the columns."""

    @property
    def height(self) -> int:
        """N, the number of rows."""

    @property
    def held(self) -> int:
        """Bytes of them in memory."""

    def read(self, name: str) -> pl.Series:
        """Return a column [N] that the schema has."""

    def frames(self) -> Iterable[pl.DataFrame]:
        """Yield all rows, a bounded number at a time."""


@dataclass(frozen=True)
class Held:
    """Rows in memory."""

    frame: pl.DataFrame

    @cached_property
    def schema(self) -> pl.Schema:
        """Names and types of the columns."""
        return self.frame.schema

    @property
    def height(self) -> int:
        """N, the number of rows."""
        return self.frame.height

    @cached_property
    def held(self) -> int:
        """Bytes of them in memory."""
        return int(self.frame.estimated_size())

    def read(self, name: str) -> pl.Series:
        """Return a column [N]."""
        return self.frame[name]

    def frames(self) -> Iterable[pl.DataFrame]:
        """Yield all rows."""
        yield self.frame


class Recent(Generic[T]):
    """The values that were asked for last, up to a number of bytes; threads may share it."""

    def __init__(self, height: int) -> None:
        """Start with none; values are of so many rows."""
        self._most = max(RECENT, _COLUMNS * 8 * height)
        self._values: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._bytes = self._gone = 0
        self._lock = Lock()

    def get(self, name: Hashable) -> T | None:
        """Return a value that is still there."""
        with self._lock:
            if name not in self._values:
                return None
            self._values.move_to_end(name)
            return self._values[name][0]

    def put(self, name: Hashable, value: T, size: int) -> None:
        """Keep a value of so many bytes, unless it alone is too large; let go of what was asked for the longest ago."""
        with self._lock:
            self._put(name, value, size)

    def _put(self, name: Hashable, value: T, size: int) -> None:
        if size > self._most or name in self._values:
            return
        self._values[name] = value, size
        self._bytes += size
        while self._bytes > self._most:
            size = self._values.popitem(last=False)[1][1]
            self._bytes, self._gone = self._bytes - size, self._gone + size
        if self._gone > _RELEASED:
            self._gone = 0
            release()


class LedgerRows:
    """N rows of a ledger, one per rollout; columns are read when they are asked for.

    Attributes:
        schema: names and types of the columns.
        height: N.
    """

    def __init__(self, pieces: Sequence[Piece], places: Array | None = None) -> None:
        """Take rows out of pieces.

        Args:
            pieces: where the rows are, numbered through from the first piece to the last. A column that one of them
                lacks is null there.
            places: which rows, and in what order; None is all of them as they come.
        """
        self._pieces = tuple(pieces)
        self._places = None if places is None else pl.Series(np.asarray(places), dtype=pl.get_index_type())
        self.schema = _together([piece.schema for piece in self._pieces])
        self.height = sum(piece.height for piece in self._pieces) if self._places is None else len(self._places)
        self._recent = Recent[pl.Series](self.height)

    @classmethod
    def of(cls, frame: pl.DataFrame) -> LedgerRows:
        """Return rows that are in memory, as they are."""
        return cls([Held(frame)])

    @classmethod
    def stacked(cls, parts: Sequence[LedgerRows]) -> LedgerRows:
        """Return the rows of several, one after the other; nothing is read or copied."""
        pieces = {id(piece): piece for part in parts for piece in part.pieces}
        ends = np.cumsum([piece.height for piece in pieces.values()])
        starts = {name: int(end) - pieces[name].height for name, end in zip(pieces, ends, strict=True)}
        places = [np.arange(0)]
        for part in parts:
            own = np.concatenate([np.arange(piece.height) + starts[id(piece)] for piece in part.pieces])
            places.append(own if part.places is None else own[part.places])
        return cls(list(pieces.values()), np.concatenate(places))

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.schema)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Where the rows are."""
        return self._pieces

    @property
    def places(self) -> Array | None:
        """Which rows of the pieces, int64 [N]; None where they are all, as they come."""
        return None if self._places is None else self._places.to_numpy().astype(np.int64)

    def estimated_size(self) -> int:
        """Return the bytes of them in memory; what was asked for last, of those in files, comes on top."""
        return sum(piece.held for piece in self._pieces)

    @property
    def in_memory(self) -> bool:
        """Whether all pieces are."""
        return all(isinstance(piece, Held) for piece in self._pieces)

    def __getitem__(self, name: str) -> pl.Series:
        """Return a column [N].

        Raises:
            KeyError: when there is none of this name.
            DataError: when the file that it is in cannot be read any more.
        """
        if self._places is None and self.in_memory and len(self._pieces) == 1:
            return self._pieces[0].read(name)
        found = self._recent.get(name)
        if found is None:
            found = self._read(name)
            self._recent.put(name, found, int(found.estimated_size()))
        return found

    def select(self, names: Iterable[str]) -> pl.DataFrame:
        """Return some columns as a frame [N]."""
        return pl.DataFrame([self[name] for name in names])

    def to_frame(self) -> pl.DataFrame:
        """Return all columns; what is in files comes into memory."""
        return pl.DataFrame([self._read(name) for name in self.columns])

    def equals(self, other: LedgerRows) -> bool:
        """Whether columns, rows and their order are the same."""
        return self.schema == other.schema and all(self[name].equals(other[name]) for name in self.columns)

    def chosen(self, places: Array) -> LedgerRows:
        """Return some rows, by their numbers, in the order of these."""
        return LedgerRows(self._pieces, places if self.places is None else self.places[places])

    def where(self, flags: Array) -> LedgerRows:
        """Return the rows that are flagged, bool [N]."""
        return self if flags.all() else self.chosen(np.flatnonzero(flags))

    def _read(self, name: str) -> pl.Series:
        dtype = self.schema[name]
        parts = [
            _as(dtype, piece.read(name) if name in piece.schema else _nulls(name, piece.height))
            for piece in self._pieces
        ]
        values = pl.concat(parts, rechunk=True) if len(parts) > 1 else parts[0].rechunk()
        return values if self._places is None else values[self._places]  # `gather` begins a query, which takes longer

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies in other processes have their rows in memory."""
        return LedgerRows.of, (self.to_frame(),)


def _together(schemas: Sequence[pl.Schema]) -> pl.Schema:
    """The schema of rows of several, one below the other."""
    if len(schemas) == 1:
        return schemas[0]
    return pl.concat([schema.to_frame() for schema in schemas], how="diagonal_relaxed").schema


def _as(dtype: pl.DataType, column: pl.Series) -> pl.Series:
    """A column as this type; a query is not begun where it already is."""
    return column if column.dtype == dtype else column.cast(dtype)


def _nulls(name: str, height: int) -> pl.Series:
    return pl.Series(name, [None], pl.Null).new_from_index(0, height) if height else pl.Series(name, [], pl.Null)
