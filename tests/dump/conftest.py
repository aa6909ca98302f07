from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from iscope.dump import Dump
from iscope.rollouts import RolloutBatch


@dataclass(frozen=True)
class Rollouts:
    """The rollouts of a dump in plain Python, to compare with what was written."""

    trainer: list[list[float]]
    inference: list[list[float]]
    mask: list[list[bool]] | None
    ids: list[str]


def rollouts(batches: Sequence[RolloutBatch]) -> Rollouts:
    def split(batch: RolloutBatch, values: torch.Tensor) -> Iterator[list[Any]]:
        for first, last in zip(batch.offsets.tolist(), batch.offsets.tolist()[1:], strict=False):
            yield values[first:last].tolist()

    masks = [row for b in batches if b.loss_mask is not None for row in split(b, b.loss_mask)]
    return Rollouts(
        trainer=[row for b in batches for row in split(b, b.trainer_logprobs)],
        inference=[row for b in batches for row in split(b, b.inference_logprobs)],
        mask=masks if all(b.loss_mask is not None for b in batches) else None,
        ids=[name for b in batches for name in b.columns["rollout_id"].to_list()],
    )


@pytest.fixture
def read() -> Callable[[Dump], Rollouts]:
    return lambda dump: rollouts(list(dump.batches()))


@pytest.fixture
def make() -> Callable[..., pa.Table]:
    return make_table


def make_table(lengths: Sequence[int], *, seed: int = 0, **extra: Any) -> pa.Table:
    """A one-sided dump: float32 logprobs and an int mask, lengths as asked; ``extra`` columns are added."""
    rng = np.random.default_rng(seed)
    offsets = pa.array(np.cumsum([0, *lengths]), pa.int32())
    inference = -rng.exponential(1.0, sum(lengths)).astype(np.float32)
    trainer = (inference + rng.normal(0, 0.05, sum(lengths))).astype(np.float32)
    mask = rng.integers(0, 2, sum(lengths)).astype(np.int32)
    columns = {"trainer_logprobs": trainer, "inference_logprobs": inference, "loss_mask": mask}
    table = {name: pa.ListArray.from_arrays(offsets, pa.array(values)) for name, values in columns.items()}
    table["rollout_id"] = pa.array([f"r{row}" for row in range(len(lengths))])
    return pa.table(table | extra)
