"""Rollouts from one memory to another."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from iscope.rollouts import LOGPROBS, RolloutBatch

_TENSORS = ("offsets", *LOGPROBS, "loss_mask", "advantage")


def to_device(batch: RolloutBatch, device: torch.device) -> RolloutBatch:
    """Return the batch with its tensors on a device; the columns of its rollouts stay where they are.

    To a GPU copies go through page-locked memory and do not wait for one another: what follows in the same stream does.
    """
    tensors = {name: values for name in _TENSORS if (values := getattr(batch, name)) is not None}
    moved = {name: _moved(values, device) for name, values in tensors.items()}
    return replace(batch, nulls={name: _moved(flags, device) for name, flags in batch.nulls.items()}, **moved)


def _moved(values: Tensor, device: torch.device) -> Tensor:
    if device.type == "cuda" and torch.cuda.is_available():
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)
