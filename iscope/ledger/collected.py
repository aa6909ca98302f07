"""Rows of a ledger while they are collected: in memory up to a number of bytes, beyond it in temporary files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from torch import Tensor

from iscope.ledger.memory import release
from iscope.ledger.order import KEYS, canonical_order
from iscope.ledger.rows import Array, Held, LedgerRows, Piece
from iscope.ledger.run import Run, Spill

# Bytes of rows that are held in memory; they are about 900 bytes each with the default recipes.
HELD = 2**27
# The same once rows have gone to files, where the others go in any case.
HELD_BESIDE_FILES = 2**25
# Rows stand between what batches let go of, so that it is not used again: bytes of them after which it is given back.
_RELEASED = 2**26
# How many times less is written at once.
_PIECES = 8
# Files that stay as they are when rows are put together; more of them are copied into one.
_RUNS = 64

# Columns of the dump's rollouts, in one frame or several with [N] rows in all, and what was measured of them [N].
_Part = tuple[Sequence[pl.DataFrame], dict[str, Array]]


def most_held(*, beside_files: bool) -> int:
    """Bytes of rows that are held in memory, beside others in files or not."""
    return min(HELD, HELD_BESIDE_FILES) if beside_files else HELD


class RowsBuilder:
    """Takes the rows of batches, in any order."""

    def __init__(self) -> None:
        """Start without rows."""
        self._parts: list[_Part] = []
        self._spill: Spill | None = None
        self.held = 0

    def add(self, described: Sequence[pl.DataFrame], measured: Mapping[str, Tensor]) -> None:
        """Take rows.

        Args:
            described: columns of the dump, one frame after the other with [N] rows in all.
            measured: columns that were measured [N].
        """
        small = _small(measured)
        self._parts.append((described, small))
        before, self.held = self.held, self.held + _size(self._parts[-1])
        if self.held // _RELEASED > before // _RELEASED:
            release()

    @property
    def spilled(self) -> bool:
        """Whether some rows are in files."""
        return self._spill is not None

    def spill(self) -> None:
        """Write what is held to a temporary file.

        Raises:
            UsageError: when the disk has no room for it.
        """
        if self._parts:
            self._spill = self._spill or Spill()
            parts, self._parts, self.held = self._parts[::-1], [], 0
            while parts:  # all at once, as much memory again would be taken
                self._spill.add(_table(_last(parts, HELD // _PIECES), None))
            release()

    def finish(self) -> LedgerRows | None:
        """Return all rows in canonical order; None where there were none.

        Raises:
            UsageError: when the disk has no room for them.
        """
        if self._spill is not None:
            self.spill()
            return canonical(LedgerRows(self._spill.finish()))
        if not self._parts:
            return None
        described = _described(self._parts)
        keys = [pl.Series(name, _joined(self._parts, name)) for name in self._parts[0][1] if name in KEYS]
        return LedgerRows.of(_table(self._parts, canonical_order(described.hstack(keys))))


def put_together(parts: Sequence[LedgerRows]) -> LedgerRows:
    """Put rows together, in canonical order; those that are in files stay there, and so do more than memory is to hold.

    Raises:
        UsageError: when the disk has no room for them.
    """
    pieces = [piece for part in parts for piece in part.pieces]
    assert sum(part.height for part in parts) == sum(piece.height for piece in pieces), "some rows were left out"
    held = [piece for piece in pieces if isinstance(piece, Held)]
    runs = [piece for piece in pieces if isinstance(piece, Run)]
    if len(runs) > _RUNS:
        return canonical(LedgerRows(_copied(pieces)))
    if sum(piece.held for piece in held) > HELD:
        return canonical(LedgerRows([*runs, *_copied(held)]))
    if not held:
        return canonical(LedgerRows(runs))
    rows = pl.concat([piece.frame for piece in held], how="diagonal_relaxed")
    if runs:
        return canonical(LedgerRows([*runs, Held(rows)]))
    return LedgerRows.of(rows[canonical_order(rows)])


def canonical(rows: LedgerRows) -> LedgerRows:
    """Return rows in canonical order: by content, then by id."""
    return rows.chosen(canonical_order(rows))


def _copied(pieces: Sequence[Piece]) -> list[Run]:
    """The rows of some pieces in a file of their own."""
    spill = Spill()
    waiting: list[pl.DataFrame] = []
    for piece in pieces:
        for frame in piece.frames():
            waiting.append(frame)
            if sum(int(one.estimated_size()) for one in waiting) > HELD // 4:
                spill.add(pl.concat(waiting, how="diagonal_relaxed"))
                waiting = []
    if waiting:
        spill.add(pl.concat(waiting, how="diagonal_relaxed"))
    return spill.finish()


def _table(parts: Sequence[_Part], order: Array | None) -> pl.DataFrame:
    """All parts as one frame, a column at a time: each is taken out of the parts as it goes in.

    Args:
        parts: the parts.
        order: the order of the rows; None leaves them as they come.
    """
    described = _described(parts)
    columns = []
    for name in list(parts[0][1]):
        values = _joined(parts, name)
        columns.append(pl.Series(name, values if order is None else values.take(order)))
        for _, measured in parts:
            del measured[name]
    return (described if order is None else described[order]).hstack(columns)


def _last(parts: list[_Part], most: int) -> list[_Part]:
    """Take so many bytes of parts, or one, from the end of a list."""
    taken: list[_Part] = []
    size = 0
    while parts and (not taken or size < most):
        taken.append(parts.pop())
        size += _size(taken[-1])
    return taken


def _size(part: _Part) -> int:
    described, measured = part
    return sum(int(frame.estimated_size()) for frame in described) + sum(column.nbytes for column in measured.values())


def _described(parts: Sequence[_Part]) -> pl.DataFrame:
    return pl.concat([frame for frames, _ in parts for frame in frames], how="diagonal_relaxed")


def _joined(parts: Sequence[_Part], name: str) -> Array:
    return np.concatenate([measured[name] for _, measured in parts])


def _small(columns: Mapping[str, Tensor]) -> dict[str, Array]:
    """Counts of a rollout's tokens in half the memory."""
    arrays = {name: values.numpy() for name, values in columns.items()}
    return {name: values.astype(np.int32) if values.dtype == np.int64 else values for name, values in arrays.items()}
