"""Rollouts from the CPU's memory to that of the device that replays them."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from iscope.rollouts import RolloutBatch


def to_device(batch: RolloutBatch, device: torch.device) -> RolloutBatch:
    """Return the batch with its tensors on a device; the columns of its rollouts stay where they are.

    To a GPU copies go through page-locked memory, so that they run beside other threads' decoding and kernels; what
    follows in the same stream waits for them.
    """

    def moved(values: Tensor) -> Tensor:
        return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values.to(device)

    def moved_if(values: Tensor | None) -> Tensor | None:
        return None if values is None else moved(values)

    return replace(
        batch,
        offsets=moved(batch.offsets),
        trainer_logprobs=moved(batch.trainer_logprobs),
        inference_logprobs=moved(batch.inference_logprobs),
        current_logprobs=moved_if(batch.current_logprobs),
        ref_logprobs=moved_if(batch.ref_logprobs),
        loss_mask=moved_if(batch.loss_mask),
        advantage=moved_if(batch.advantage),
        nulls={name: moved(flags) for name, flags in batch.nulls.items()},
    )
