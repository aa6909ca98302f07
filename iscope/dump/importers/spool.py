"""Rollouts of a file that is not Parquet: read once, kept as temporary Parquet, and then read like any other dump."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iscope.dump.files import hive_values
from iscope.dump.importers.imported import ImportedSource
from iscope.dump.importers.kinds import element_type, is_known, is_strict, is_tokens, only_advantage, tokens_of
from iscope.dump.importers.scalars import Scalars, text
from iscope.dump.parquet import ParquetSource
from iscope.dump.remote.file import size_of
from iscope.errors import DataError, UsageError

_ROWS = 1024
_TOKENS = 1 << 20


class Spool:
    """Takes rollouts one by one; memory is bounded by about a million tokens, or the longest rollout.

    Columns keep the names of the file. Lists become token columns, everything else a value of the rollout.
    """

    def __init__(self, file: str, floats: pa.DataType, *, one_advantage: bool = False) -> None:
        """Start.

        Args:
            file: what errors and default rollout ids call it.
            floats: the Arrow type of logprobs and advantages.
            one_advantage: whether advantages per token become one per rollout, if no rollout has two at loss tokens.
        """
        self._file, self._floats = file, floats
        self._folder = Path(tempfile.mkdtemp(prefix="iscope-"))
        self._forget = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._tokens: list[dict[str, pa.Array]] = []
        self._values: list[dict[str, Any]] = []
        self._scalars = Scalars()
        self._lists: dict[str, None] = {}
        self._single: dict[str, None] = {}
        self._advantages: list[float | None] | None = [] if one_advantage else None
        self._held = self._rows = 0
        self._writer: pq.ParquetWriter | None = None

    def add(self, place: str, values: Mapping[str, Any]) -> None:
        """Take one rollout.

        Args:
            place: where it stands in the file, for errors: ``line 3``.
            values: its columns.

        Raises:
            DataError: when a column does not hold what its name says, or is a list here and a value elsewhere.
        """
        tokens, single = {}, {}
        for key, value in values.items():
            name = text(key)
            if is_tokens(value):
                array = self._array(place, name, value)
                if array is not None:
                    tokens[name] = array
            elif value is not None:
                single[name] = value
        self._check(place, tokens, single)
        self._follow(tokens)
        self._tokens.append(tokens)
        self._values.append(single)
        self._rows += 1
        self._held += max((len(array) for array in tokens.values()), default=0)
        if len(self._tokens) >= _ROWS or self._held >= _TOKENS:
            self._flush()

    def finish(self, framework: str, said: Sequence[str] = ()) -> ImportedSource:
        """Return all rollouts as a source of a dump.

        Args:
            framework: the name of the format.
            said: what had to be assumed.
        """
        self._flush()
        if self._writer is not None:
            self._writer.close()
        for key, value in hive_values(self._file).items():
            if key not in self._lists and key not in self._single:
                self._scalars.append_constant(key, value)
        if self._advantages and "advantage" in self._lists:
            self._scalars.append_column("advantage", pa.array(self._advantages, pa.float64()))
        tokens = None if self._writer is None else ParquetSource.open(str(self._path))
        source = ImportedSource(
            self._file, self._rows, size_of(self._file), tokens, self._scalars.table(), framework, list(said)
        )
        self._forget.detach()
        weakref.finalize(source, shutil.rmtree, self._folder, ignore_errors=True)
        return source

    @property
    def _path(self) -> Path:
        return self._folder / "tokens.parquet"

    def _array(self, place: str, name: str, value: Any) -> pa.Array | None:
        try:
            return tokens_of(name, value, self._floats)
        except ValueError as error:
            if is_known(name):
                raise DataError(f"{self._file}: {place}: {name!r} cannot be read ({error}).") from None
            return None

    def _check(self, place: str, tokens: Mapping[str, Any], single: Mapping[str, Any]) -> None:
        for name in tokens:
            if name in self._single:
                raise DataError(f"{self._file}: {place}: {name!r} is a list, but a single value in rows before.")
            if self._writer is not None and name not in self._lists and is_strict(name):
                raise DataError(
                    f"{self._file}: {place}: {name!r} is here, but not in the rows before; read them apart."
                )
        for name in single:
            if name in self._lists:
                raise DataError(f"{self._file}: {place}: {name!r} is a single value, but a list in other rows.")
        self._single |= dict.fromkeys(single)
        if self._writer is None:
            self._lists |= dict.fromkeys(tokens)

    def _follow(self, tokens: Mapping[str, pa.Array]) -> None:
        """Keep the advantage of each rollout for as long as every one has a single one."""
        if self._advantages is not None:
            one = only_advantage(tokens)
            if one is False:
                self._advantages = None
            else:
                self._advantages.append(one)

    def _flush(self) -> None:
        if not self._tokens:
            return
        if self._lists:
            self._write()
        self._scalars.append(self._values)
        self._tokens, self._values, self._held = [], [], 0

    def _write(self) -> None:
        kinds = {name: element_type(name, self._floats) for name in self._lists}
        schema = pa.schema([pa.field(name, pa.list_(kind)) for name, kind in kinds.items()])
        arrays = [_lists([row.get(name) for row in self._tokens], kind) for name, kind in kinds.items()]
        try:
            if self._writer is None:
                self._writer = pq.ParquetWriter(self._path, schema, use_dictionary=False, compression="zstd")
            self._writer.write_batch(pa.record_batch(arrays, schema=schema))
        except OSError as error:
            reason = error.strerror or error
            raise UsageError(
                f"{self._folder}: cannot keep what was read of {self._file} there ({reason}); set TMPDIR to a folder "
                "with more room."
            ) from None


def _lists(rows: list[pa.Array | None], kind: pa.DataType) -> pa.Array:
    """One list array of N rows; None is a null list."""
    lengths = [0 if row is None else len(row) for row in rows]
    offsets = pa.array([sum_ for sum_ in _running(lengths)], pa.int32())
    found = [row for row in rows if row is not None]
    values = pa.concat_arrays(found) if found else pa.array([], kind)
    missing = len(found) < len(rows)
    return pa.ListArray.from_arrays(offsets, values, mask=pa.array([row is None for row in rows]) if missing else None)


def _running(lengths: list[int]) -> list[int]:
    sums = [0]
    for length in lengths:
        sums.append(sums[-1] + length)
    return sums
