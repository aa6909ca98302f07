"""A block of Arrow columns as a RolloutBatch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
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
        columns=block.frame(layout.columns),
        nulls=nulls,
    )


def _advantage(array: pa.Array) -> Tensor:
    return floats(values_of(array) if is_list(array.type) else array, torch.float64)[0]
