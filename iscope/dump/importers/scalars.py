"""Values of rollouts, one per rollout and column, whose types show only when all of them are there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

_PLAIN = (bool, int, float, str)


class Scalars:
    """Columns of one value per rollout, held as Arrow arrays: some 8 bytes a value, more for text."""

    def __init__(self) -> None:
        """Start without columns."""
        self._rows = 0
        self._chunks: dict[str, list[pa.Array]] = {}

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Take the values of further rollouts; what is no bool, number or text counts as missing."""
        names = dict.fromkeys([*self._chunks, *(name for row in rows for name in row)])
        for name in names:
            chunks = self._chunks.setdefault(name, [pa.nulls(self._rows)] if self._rows else [])
            chunks.append(_array([_plain(row.get(name)) for row in rows]))
        self._rows += len(rows)

    def append_column(self, name: str, values: pa.Array) -> None:
        """Take a whole column, with the value of every rollout so far."""
        self._chunks[name] = [values]

    def append_constant(self, name: str, value: str | int | None) -> None:
        """Take a column that has the same value for every rollout so far."""
        self._chunks[name] = [pa.array([value] * self._rows)]

    def table(self) -> pa.Table:
        """Return all of them, each column in the narrowest type that holds its values, text if none does."""
        return pa.table({name: _joined(chunks) for name, chunks in self._chunks.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    return value if type(value) in _PLAIN else None


def _array(values: list[Any]) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} and len(kinds) == 2:
        values = [value if value is None else _float(value) for value in values]
    elif len(kinds) > 1 or kinds == {str}:
        values = [None if value is None else text(value) for value in values]
    try:
        return pa.array(values, from_pandas=False)
    except (pa.ArrowException, OverflowError):  # an integer of more than 64 bits
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def text(value: object) -> str:
    """Return a value as text that can be written: halves of surrogate pairs become their escapes."""
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")


def _joined(chunks: list[pa.Array]) -> pa.ChunkedArray:
    kinds = {chunk.type for chunk in chunks} - {pa.null()}
    if len(kinds) <= 1:
        kind = next(iter(kinds), pa.null())
    elif kinds == {pa.int64(), pa.float64()}:
        kind = pa.float64()
    else:
        kind = pa.string()
    return pa.chunked_array([chunk.cast(kind, safe=False) for chunk in chunks], kind)
