"""One Arrow list column as flat tensors, sharing Arrow's memory wherever it can be shared."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def offsets_of(lists: pa.Array) -> Int64s:
    """Return int64 [N + 1], from 0: row i of the list array owns values offsets[i]:offsets[i + 1]."""
    if pa.types.is_fixed_size_list(lists.type):
        size = int(lists.type.list_size)
        return (
            np.arange(0, (len(lists) + 1) * size, size, dtype=np.int64) if size else np.zeros(len(lists) + 1, np.int64)
        )
    offsets: Int64s = lists.offsets.to_numpy().astype(np.int64)
    offsets -= offsets[0]
    return offsets


def values_of(lists: pa.Array) -> pa.Array:
    """Return the values [P] that the rows of a list array own, without a copy."""
    if pa.types.is_fixed_size_list(lists.type):
        return lists.values.slice(lists.offset * lists.type.list_size, len(lists) * lists.type.list_size)
    offsets = lists.offsets
    first = offsets[0].as_py()
    return lists.values.slice(first, offsets[-1].as_py() - first)


def lengths_of(lists: pa.Array) -> pa.Array:
    """Return the number of tokens of each row, null where the list is null."""
    return pc.list_value_length(lists)


def rows_with(flags: Flags, offsets: Int64s) -> Flags:
    """Return bool [N]: which rows own at least one of the flagged values [P]."""
    rows = np.zeros(len(offsets) - 1, dtype=np.bool_)
    rows[np.searchsorted(offsets, np.flatnonzero(flags), side="right") - 1] = True
    return rows


def floats(values: pa.Array, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """Return values [P] as a float tensor, NaN where null, and bool [P] that marks the nulls (None: there are none).

    The tensor may share read-only memory with Arrow: it must not be written to.
    """
    if values.null_count == 0:
        return numbers(values).to(dtype), None
    nulls = torch.from_numpy(bits(values.is_null()))
    if pa.types.is_null(values.type):
        return torch.full((len(values),), torch.nan, dtype=dtype), nulls
    return numbers(values).to(dtype).masked_fill(nulls, torch.nan), nulls


def booleans(values: pa.Array) -> Tensor:
    """Return values [P] without nulls as a bool tensor: True where they are not zero."""
    if pa.types.is_boolean(values.type):
        return torch.from_numpy(bits(values))
    return numbers(values) != 0


def numbers(values: pa.Array) -> Tensor:
    """Return numeric values [P] as a tensor over Arrow's own memory; what lies under a null is undefined."""
    if pa.types.is_null(values.type):
        return torch.zeros(len(values))
    if values.null_count:
        values = pa.Array.from_buffers(values.type, len(values), [None, values.buffers()[1]], offset=values.offset)
    return from_dlpack(values)


def bits(values: pa.Array) -> Flags:
    """Return an Arrow bool array without nulls as numpy bool [P]."""
    if len(values) == 0:
        return np.zeros(0, dtype=np.bool_)
    first, skipped = divmod(values.offset, 8)
    last = (values.offset + len(values) + 7) // 8
    packed = np.frombuffer(values.buffers()[1], dtype=np.uint8)[first:last]
    return np.unpackbits(packed, bitorder="little")[skipped : skipped + len(values)].view(np.bool_)
