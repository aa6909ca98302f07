"""Long form: one row per token, with the rollout it belongs to and, if wanted, its position there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from iscope.dump.importers.formats import Rows
from iscope.dump.importers.kinds import KIND_OF, is_known
from iscope.dump.resolve import is_list
from iscope.dump.schema import ALIASES, AMBIGUOUS, PLAIN, SCALARS
from iscope.errors import DataError
from iscope.rollouts import LOGPROBS

POSITIONS = ("position", "token_position", "token_index", "token_idx", "pos", "t")
IDS = ("rollout_id", *ALIASES["rollout_id"])
_SINGLE = {*SCALARS, *(alias for name in SCALARS for alias in ALIASES.get(name, ()))} - {
    name for name, kind in KIND_OF.items() if kind == "versions"
}
# In long form a column may be named for the one value that it has per row.
_SINGULAR = {name.removesuffix("s"): name for name in (*KIND_OF, "token_ids") if name.endswith("s")}
_RENAMED = {one: name for one, name in _SINGULAR.items() if one not in KIND_OF and one not in AMBIGUOUS}
_LOGPROBS = {*LOGPROBS, *PLAIN, *AMBIGUOUS, *(alias for name in LOGPROBS for alias in ALIASES[name])}
_ROWS = 1 << 16


class ScatteredError(DataError):
    """The rows of a rollout do not stand together."""


def recognises(record: Mapping[str, Any]) -> bool:
    """Return whether a record is one token: a logprob that is a single number, and a rollout id."""
    named = any(_own(name) in _LOGPROBS and isinstance(value, float | int) for name, value in record.items())
    return named and any(name in record for name in IDS)


def is_long(schema: pa.Schema) -> bool:
    """Return whether a table has one row per token."""
    numbers = [field.name for field in schema if pa.types.is_floating(field.type)]
    if any(is_list(field.type) and is_known(field.name) for field in schema):
        return False
    return any(_own(name) in _LOGPROBS for name in numbers) and any(name in schema.names for name in IDS)


def rollouts(records: Iterator[tuple[str, dict[str, Any]]], path: str, say: Callable[[str], None]) -> Rows:
    """Yield rollouts out of records of one token each."""
    yield from gathered(_tables(records, path), path, say)


def gathered(tables: Iterator[pa.Table], path: str, say: Callable[[str], None]) -> Rows:
    """Yield rollouts out of tables with one row per token, in which a rollout's rows stand together.

    Raises:
        ScatteredError: when they do not.
        DataError: when a row has no rollout id, or two rows have the same position.
    """
    seen: set[int] = set()
    held: pa.Table | None = None
    start = 0
    said = False
    for table in tables:
        if not said:
            say(f"The dump has one row per token: rows with the same {_key(table.column_names, path)} are a rollout.")
            said = True
        whole = table if held is None else pa.concat_tables([held, table], promote_options="permissive")
        whole = whole.combine_chunks()
        edges = _edges(whole, path, start)
        for first, last in pairwise(edges[:-1]):
            yield _rollout(whole.slice(first, last - first), path, start + first, seen)
        held = whole.slice(edges[-2]) if len(edges) > 1 else None
        start += edges[-2] if len(edges) > 1 else 0
    if held is not None and held.num_rows:
        yield _rollout(held, path, start, seen)


def _tables(records: Iterator[tuple[str, dict[str, Any]]], path: str) -> Iterator[pa.Table]:
    while rows := [record for _, record in islice(records, _ROWS)]:
        try:
            yield pa.Table.from_pylist(rows, schema=None)
        except (pa.ArrowException, OverflowError, ValueError) as error:
            reason = " ".join(str(error).split())[:160].rstrip(".")
            raise DataError(f"{path}: columns hold values of several types ({reason}).") from None


def _key(names: Sequence[str], path: str) -> str:
    for name in IDS:
        if name in names:
            return name
    raise DataError(f"{path}: one row per token needs a column 'rollout_id' that says whose token it is.")


def _edges(table: pa.Table, path: str, start: int) -> list[int]:
    """Return where rollouts begin, and the number of rows."""
    keys = table.column(_key(table.column_names, path))
    if keys.null_count:
        row = start + pc.index(keys.is_null(), value=True).as_py()
        raise DataError(f"{path}: row {row} has no {_key(table.column_names, path)!r}.")
    if not len(keys):
        return [0]
    codes = pc.dictionary_encode(keys).combine_chunks()
    codes = codes.chunk(0).indices if isinstance(codes, pa.ChunkedArray) else codes.indices
    changes = np.flatnonzero(np.diff(codes.to_numpy())) + 1
    return [0, *changes.tolist(), table.num_rows]


def _rollout(rows: pa.Table, path: str, start: int, seen: set[int]) -> tuple[str, dict[str, Any]]:
    key = rows.column(_key(rows.column_names, path))[0].as_py()
    if hash(key) in seen:
        raise ScatteredError(
            f"{path}: row {start}: rollout {str(key)[:60]!r} was there before; sort the rows by rollout."
        )
    seen.add(hash(key))
    rows = _in_order(rows, path, start, key)
    columns: dict[str, Any] = {}
    for name in rows.column_names:
        column = rows.column(name)
        if name in POSITIONS:
            continue
        if _is_per_token(name, column.type):
            columns[_own(name)] = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
        else:
            columns[name] = column[0].as_py()
    return f"row {start}", columns


def _is_per_token(name: str, kind: pa.DataType) -> bool:
    if name in _SINGLE or pa.types.is_null(kind):
        return False
    return is_known(_own(name)) or bool(pa.types.is_floating(kind))


def _in_order(rows: pa.Table, path: str, start: int, key: Any) -> pa.Table:
    name = next((name for name in POSITIONS if name in rows.column_names), None)
    if name is None:
        return rows
    column = rows.column(name)
    if column.null_count or not pa.types.is_integer(column.type):
        raise DataError(
            f"{path}: row {start}: {name!r} of rollout {str(key)[:60]!r} must be a whole number in every row."
        )
    positions: npt.NDArray[np.int64] = column.to_numpy().astype(np.int64)
    order = np.argsort(positions, kind="stable")
    if (np.diff(positions[order]) == 0).any():
        raise DataError(f"{path}: row {start}: two rows of rollout {str(key)[:60]!r} have the same {name!r}.")
    return rows if (np.diff(order) == 1).all() else rows.take(pa.array(order))


def _own(name: str) -> str:
    return _RENAMED.get(name, name)
