"""Arrays, tensors and lists of a trainer as the Arrow columns of a dump; needs neither torch nor polars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iscope.errors import UsageError

Array = np.ndarray[Any, Any]
Flags = npt.NDArray[np.bool_]

LISTS = {
    "trainer_logprobs": pa.float32(),
    "inference_logprobs": pa.float32(),
    "current_logprobs": pa.float32(),
    "ref_logprobs": pa.float32(),
    "loss_mask": pa.bool_(),
    "token_ids": pa.int64(),
}
# The same column in every file, whether or not its values are there.
SINGLE = {
    "rollout_id": pa.string(),
    "group_id": pa.string(),
    "step": pa.int64(),
    "policy_version": pa.int64(),
    "trainer_version": pa.int64(),
    "reward": pa.float64(),
    "temperature": pa.float64(),
    "top_p": pa.float64(),
    "top_k": pa.int64(),
    "min_p": pa.float64(),
    "logprobs_mode": pa.string(),
    "finish_reason": pa.string(),
    "env": pa.string(),
}
_VERSIONS = ("policy_version", "trainer_version")


def array_of(value: Any) -> Array:
    """Return an array, a torch tensor (of any device) or nested lists as a numpy array; bfloat16 becomes float32."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if "bfloat16" in str(value.dtype) else value
        return np.asarray(value.numpy())
    return np.asarray(value)


def is_padded(value: Any) -> bool:
    """Return whether a value is a [N, T] array or tensor."""
    return hasattr(value, "ndim") and value.ndim == 2


def table_of(columns: Mapping[str, Any], present: Any) -> pa.Table:
    """Return N rollouts as a table of canonical columns.

    Args:
        columns: by canonical name, lists of N arrays [T_i], padded arrays [N, T] or tensors of that shape; values per
            rollout as N values or as one for all; ``advantage`` either way.
        present: bool [N, T], where padded columns hold a token; None where nothing is padding.

    Raises:
        UsageError: when lengths or shapes disagree, or a value has no such type.
    """
    flags = None if present is None else array_of(present) != 0
    lists = {name: value for name, value in columns.items() if value is not None and _is_list(name, value)}
    if not lists:
        raise UsageError("add: give the logprobs of at least one policy.")
    ragged = {name: _rows(name, value, flags) for name, value in lists.items()}
    first = next(iter(ragged))
    lengths = [len(row) for row in ragged[first]]
    arrays = {}
    for name, rows in ragged.items():
        _check(name, [len(row) for row in rows], first, lengths)
        arrays[name] = _list_array(name, rows)
    for name, value in columns.items():
        if value is not None and name not in lists:
            arrays[name] = _single(name, value, len(lengths))
    return pa.table(arrays)


def _is_list(name: str, value: Any) -> bool:
    if name in LISTS:
        return True
    if name in ("advantage", *_VERSIONS):
        return is_padded(value) or (_is_sequence(value) and len(value) > 0 and _is_sequence(value[0]))
    return False


def _is_sequence(value: Any) -> bool:
    return (isinstance(value, Sequence) and not isinstance(value, str)) or getattr(value, "ndim", 0) > 0


def _rows(name: str, value: Any, flags: Flags | None) -> list[Array]:
    if not is_padded(value):
        rows = [array_of(row) for row in value]
        if any(row.ndim != 1 for row in rows):
            raise UsageError(f"add: {name} must hold one list of tokens for each rollout.")
        return rows
    padded = array_of(value)
    if flags is None:
        return list(padded)
    if padded.shape != flags.shape:
        raise UsageError(f"add: {name} is {list(padded.shape)}, but present is {list(flags.shape)}.")
    return [row[keep] for row, keep in zip(padded, flags, strict=True)]


def _check(name: str, found: list[int], first: str, lengths: list[int]) -> None:
    if len(found) != len(lengths):
        raise UsageError(f"add: {name} has {len(found)} rollouts, but {first} {len(lengths)}.")
    for row, (one, other) in enumerate(zip(found, lengths, strict=True)):
        if one != other:
            raise UsageError(f"add: rollout {row}: {name} has {one} tokens, but {first} {other}.")


def _list_array(name: str, rows: list[Array]) -> pa.Array:
    kind = LISTS.get(name, pa.float64() if name == "advantage" else pa.int64())
    offsets = np.cumsum([0, *(len(row) for row in rows)])
    filled = [row for row in rows if len(row)]
    try:
        values = np.concatenate(filled) if filled else np.zeros(0)
        values = values != 0 if name == "loss_mask" else values
        made = pa.array(values).cast(kind, safe=name == "token_ids")
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise UsageError(f"add: {name} cannot be written ({str(error).splitlines()[0]}).") from None
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), made)


def _single(name: str, value: Any, rows: int) -> pa.Array:
    values = list(array_of(value).tolist()) if hasattr(value, "ndim") and value.ndim == 1 else value
    if not isinstance(values, list | tuple):
        values = [values.item() if hasattr(values, "item") else values] * rows
    if len(values) != rows:
        raise UsageError(f"add: {name} has {len(values)} values, but there are {rows} rollouts.")
    kind = SINGLE.get(name, pa.float64() if name == "advantage" else None)
    if kind == pa.string():
        values = [None if item is None else str(item) for item in values]
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"add: {name} cannot be written ({str(error).splitlines()[0]}).") from None
