"""RolloutBatch: a ragged batch of rollouts, the one form in which tokens travel through iscope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import torch
from torch import Tensor

from iscope.errors import DataError

LOGPROBS = ("trainer_logprobs", "inference_logprobs", "current_logprobs", "ref_logprobs")


@dataclass(frozen=True)
class RolloutBatch:
    """N rollouts with P tokens in all, stored flat; rollout i owns tokens offsets[i]:offsets[i + 1].

    Attributes:
        offsets: int64 [N + 1], from 0 to P.
        trainer_logprobs: float [P], nats: log pi_old of each sampled token.
        inference_logprobs: float [P], nats: log mu of each sampled token.
        current_logprobs: float [P] or None, nats: log pi_theta.
        ref_logprobs: float [P] or None, nats: the reference policy.
        loss_mask: bool [P], True where the token trains; None: every token trains.
        advantage: float64 [N], or [P] where it differs per token (``advantage_per_token``), or None.
        columns: per-rollout columns [N], at least ``rollout_id``.
        nulls: for a logprob column that held nulls, bool [P] where it did (its value there is NaN).
        advantage_per_token: True where ``advantage`` is [P].
    """

    offsets: Tensor
    trainer_logprobs: Tensor
    inference_logprobs: Tensor
    columns: pl.DataFrame
    current_logprobs: Tensor | None = None
    ref_logprobs: Tensor | None = None
    loss_mask: Tensor | None = None
    advantage: Tensor | None = None
    advantage_per_token: bool = False
    nulls: Mapping[str, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return N, the number of rollouts."""
        return self.offsets.numel() - 1

    @property
    def tokens(self) -> int:
        """P, the number of tokens, loss mask or not."""
        return self.trainer_logprobs.numel()

    @classmethod
    def from_padded(
        cls,
        trainer_logprobs: Tensor,
        inference_logprobs: Tensor,
        loss_mask: Tensor,
        *,
        current_logprobs: Tensor | None = None,
        ref_logprobs: Tensor | None = None,
        advantage: Tensor | None = None,
        columns: Mapping[str, Sequence[Any]] | pl.DataFrame | None = None,
    ) -> RolloutBatch:
        """Build a batch from padded [N, T] tensors, as trainers hold them in memory.

        Positions where ``loss_mask`` is false keep their place; they are padding or prompt and never train.

        Args:
            trainer_logprobs: float [N, T], nats.
            inference_logprobs: float [N, T], nats.
            loss_mask: bool or int [N, T].
            current_logprobs: float [N, T], nats.
            ref_logprobs: float [N, T], nats.
            advantage: float [N] or [N, T].
            columns: per-rollout columns of length N.

        Raises:
            DataError: when shapes disagree.
        """
        shape = tuple(trainer_logprobs.shape)
        if len(shape) != 2:
            raise DataError(f"from_padded: trainer_logprobs must be [N, T], not {list(shape)}.")
        padded = {
            "inference_logprobs": inference_logprobs,
            "loss_mask": loss_mask,
            "current_logprobs": current_logprobs,
            "ref_logprobs": ref_logprobs,
        }
        for name, tensor in padded.items():
            if tensor is not None and tuple(tensor.shape) != shape:
                raise DataError(f"from_padded: {name} is {list(tensor.shape)}, trainer_logprobs {list(shape)}.")
        per_token = advantage is not None and advantage.dim() == 2
        expected = shape if per_token else shape[:1]
        if advantage is not None and tuple(advantage.shape) != expected:
            raise DataError(f"from_padded: advantage is {list(advantage.shape)}, it must be [N] or [N, T].")
        rows, length = shape
        return cls(
            offsets=torch.arange(0, rows * length + 1, length) if length else torch.zeros(rows + 1, dtype=torch.int64),
            trainer_logprobs=_flat(trainer_logprobs),
            inference_logprobs=_flat(inference_logprobs),
            current_logprobs=None if current_logprobs is None else _flat(current_logprobs),
            ref_logprobs=None if ref_logprobs is None else _flat(ref_logprobs),
            loss_mask=loss_mask.detach().cpu().reshape(-1) != 0,
            advantage=None if advantage is None else advantage.detach().cpu().double().reshape(-1),
            advantage_per_token=per_token,
            columns=_columns(columns, rows),
        )

    @classmethod
    def from_lists(
        cls,
        trainer_logprobs: Sequence[Sequence[float]],
        inference_logprobs: Sequence[Sequence[float]],
        loss_mask: Sequence[Sequence[int]] | None = None,
        *,
        current_logprobs: Sequence[Sequence[float]] | None = None,
        ref_logprobs: Sequence[Sequence[float]] | None = None,
        advantage: Sequence[float] | Sequence[Sequence[float]] | None = None,
        columns: Mapping[str, Sequence[Any]] | pl.DataFrame | None = None,
    ) -> RolloutBatch:
        """Build a batch from one list of tokens per rollout; arguments as in ``from_padded``, ragged.

        Raises:
            DataError: when two lists of one rollout differ in length.
        """
        lengths = [len(row) for row in trainer_logprobs]
        ragged = {
            "inference_logprobs": inference_logprobs,
            "loss_mask": loss_mask,
            "current_logprobs": current_logprobs,
            "ref_logprobs": ref_logprobs,
        }
        for name, lists in ragged.items():
            if lists is not None:
                _check_lengths(name, [len(row) for row in lists], lengths)
        per_token = advantage is not None and len(advantage) > 0 and isinstance(advantage[0], Sequence)
        if per_token:
            _check_lengths("advantage", [len(row) for row in advantage], lengths)  # type: ignore[arg-type, union-attr]
        elif advantage is not None and len(advantage) != len(lengths):
            raise DataError(f"from_lists: advantage has {len(advantage)} rows, trainer_logprobs {len(lengths)}.")
        flat_advantage = _concatenate(advantage, torch.float64) if per_token else advantage
        return cls(
            offsets=torch.tensor([0, *lengths], dtype=torch.int64).cumsum(0),
            trainer_logprobs=_concatenate(trainer_logprobs, torch.float32),
            inference_logprobs=_concatenate(inference_logprobs, torch.float32),
            current_logprobs=None if current_logprobs is None else _concatenate(current_logprobs, torch.float32),
            ref_logprobs=None if ref_logprobs is None else _concatenate(ref_logprobs, torch.float32),
            loss_mask=None if loss_mask is None else _concatenate(loss_mask, torch.float32) != 0,
            advantage=None if flat_advantage is None else torch.as_tensor(flat_advantage, dtype=torch.float64),
            advantage_per_token=per_token,
            columns=_columns(columns, len(lengths)),
        )


def _flat(tensor: Tensor) -> Tensor:
    tensor = tensor.detach().cpu().reshape(-1)
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def _concatenate(lists: Any, dtype: torch.dtype) -> Tensor:
    return torch.tensor([float("nan") if x is None else x for row in lists for x in row], dtype=dtype)


def _check_lengths(name: str, found: list[int], expected: list[int]) -> None:
    if len(found) != len(expected):
        raise DataError(f"from_lists: {name} has {len(found)} rows, trainer_logprobs {len(expected)}.")
    for row, (a, b) in enumerate(zip(found, expected, strict=True)):
        if a != b:
            raise DataError(f"from_lists: row {row}: {name} has {a} tokens, trainer_logprobs {b}.")


def _columns(columns: Mapping[str, Sequence[Any]] | pl.DataFrame | None, rows: int) -> pl.DataFrame:
    frame = pl.DataFrame(columns) if columns is not None else pl.DataFrame()
    if frame.width and frame.height != rows:
        raise DataError(f"columns have {frame.height} rows, the batch has {rows} rollouts.")
    if "rollout_id" not in frame.columns:
        ids = pl.Series("rollout_id", [f"#{row}" for row in range(rows)], dtype=pl.String)
        frame = pl.DataFrame([ids, *frame.get_columns()])
    return frame
