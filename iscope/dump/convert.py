"""A block of Arrow columns as a RolloutBatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from iscope.dump.ragged import booleans, floats, offsets_of, values_of
from iscope.dump.resolve import is_list
from iscope.dump.table import Block
from iscope.rollouts import LOGPROBS, RolloutBatch


@dataclass(frozen=True)
class Layout:
    """How blocks become batches.

    Attributes:
        dtype: of the logprobs.
        columns: the per-rollout columns to keep, ``rollout_id`` apart.
    """

    dtype: torch.dtype
    columns: Sequence[str]


def to_batch(block: Block, layout: Layout) -> RolloutBatch:
    """Convert a screened block of N rows; list columns must agree in length.

    The tensors may share read-only memory with Arrow: they must not be written to.
    """
    arrays, tokens, nulls = block.arrays, {}, {}
    for column in LOGPROBS:
        if column in arrays:
            tokens[column], holes = floats(values_of(arrays[column]), layout.dtype)
            if holes is not None:
                nulls[column] = holes
    mask, advantage = arrays.get("loss_mask"), arrays.get("advantage")
    return RolloutBatch(
        offsets=torch.from_numpy(offsets_of(arrays["trainer_logprobs"])),
        trainer_logprobs=tokens["trainer_logprobs"],
        inference_logprobs=tokens["inference_logprobs"],
        current_logprobs=tokens.get("current_logprobs"),
        ref_logprobs=tokens.get("ref_logprobs"),
        loss_mask=None if mask is None else booleans(values_of(mask)),
        advantage=None if advantage is None else _advantage(advantage),
        advantage_per_token=advantage is not None and is_list(advantage.type),
        columns=_frame(block, layout.columns),
        nulls=nulls,
    )


def _advantage(array: pa.Array) -> Tensor:
    return floats(values_of(array) if is_list(array.type) else array, torch.float64)[0]


def _frame(block: Block, columns: Sequence[str]) -> pl.DataFrame:
    series = [pl.Series(name, block.arrays[name]) for name in columns]
    return pl.DataFrame([pl.Series("rollout_id", _rollout_ids(block)), *series])


def _rollout_ids(block: Block) -> pa.Array:
    """Return String [N]: the ids of the dump, and file#row where it has none."""
    ids = block.arrays.get("rollout_id")
    if ids is not None and ids.null_count == 0:
        return ids
    rows = pa.array(block.rows).cast(pa.large_string())
    file, hash_sign = (pa.scalar(text, pa.large_string()) for text in (block.file, "#"))
    default = pc.binary_join_element_wise(file, rows, hash_sign)
    return default if ids is None else pc.coalesce(ids, default)
