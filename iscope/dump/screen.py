"""The rows of a block that no figure could use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iscope.dump.ragged import Flags, bits, booleans, offsets_of, rows_with, values_of
from iscope.dump.resolve import is_list
from iscope.dump.table import Block
from iscope.dump.tally import Fault, Tally, leave_out
from iscope.rollouts import LOGPROBS

_TOKEN_IDS = ("trainer_token_ids", "inference_token_ids", "current_token_ids", "ref_token_ids")


def screen(block: Block, tally: Tally, *, strict: bool) -> Block:
    """Return a block without rows that have a null list, a null in the loss mask or an unusable advantage.

    Raises:
        DataError: when ``strict`` and there is one.
    """
    block = leave_out(block, null_faults(block), tally, strict=strict)
    return leave_out(block, _token_advantages(block), tally, strict=strict)


def null_faults(block: Block) -> Iterator[Fault]:
    """Yield the faults of rows in which a whole list, or a value that must be there, is missing."""
    for column in (*LOGPROBS, *_TOKEN_IDS, "loss_mask", "advantage"):
        array = block.arrays.get(column)
        if array is not None and array.null_count:
            yield Fault(f"null_{column}", bits(array.is_null()), f"{column} is null")
    mask = block.arrays.get("loss_mask")
    if mask is not None and (flags := _holes(values_of(mask))) is not None:
        yield Fault("null_loss_mask", rows_with(flags, offsets_of(mask)), "loss_mask holds a null")
    advantage = block.arrays.get("advantage")
    if advantage is not None and pa.types.is_floating(advantage.type):
        finite = _finite(advantage)
        if not finite.all():
            yield Fault("nonfinite_advantage", ~finite, "advantage is NaN or infinite, in float32")


def _token_advantages(block: Block) -> Iterator[Fault]:
    """Advantages may be missing where the loss mask is false, as some trainers write them, but not where it is true."""
    advantage = block.arrays.get("advantage")
    if advantage is None or not is_list(advantage.type):
        return
    values, mask = values_of(advantage), block.arrays.get("loss_mask")
    holes = _holes(values)
    finite = _finite(values) if pa.types.is_floating(values.type) else None
    for reason, flags in (("null_advantage", holes), ("nonfinite_advantage", None if finite is None else ~finite)):
        if flags is not None and flags.any():
            trained = flags if mask is None else flags & booleans(values_of(mask)).numpy()
            what = "null or NaN" if reason == "null_advantage" else "infinite, in float32,"
            yield Fault(reason, rows_with(trained, offsets_of(advantage)), f"advantage is {what} at a loss token")


def _finite(advantages: pa.Array) -> Flags:
    """Flag advantages that are finite as trainers hold them, or missing."""
    return bits(pc.is_finite(advantages.cast(pa.float32(), safe=False)).fill_null(True))


def _holes(values: pa.Array) -> Flags | None:
    """Return bool [P] where values are null or NaN, or None if nowhere."""
    if values.null_count == 0 and not pa.types.is_floating(values.type):
        return None
    flags = bits(pc.is_null(values, nan_is_null=True))
    return flags if np.any(flags) else None
