"""Batches of about the asked number of tokens out of batches of any size; a rollout is never split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl
import torch
from torch import Tensor

from iscope.dump.ragged import Flags
from iscope.rollouts import LOGPROBS, RolloutBatch

# Of the asked size: smaller batches wait for their neighbours, since joining costs a copy.
_SMALL = 0.25
# What is measured of a rollout takes the memory of about so many tokens, however short it is.
_ROLLOUT = 16
_TOKENS = (*LOGPROBS, "loss_mask")


def repack(batches: Iterable[RolloutBatch], batch_tokens: int) -> Iterator[RolloutBatch]:
    """Yield the same rollouts in the same order, at most ``batch_tokens`` tokens a batch or else a single rollout.

    Of rollouts of fewer than 16 tokens a batch holds as many as if they had so many.
    """
    held: list[RolloutBatch] = []
    tokens = rollouts = 0
    for batch in batches:
        for piece in _cut(batch, batch_tokens):
            if held and max(tokens + piece.tokens, _ROLLOUT * (rollouts + len(piece))) > batch_tokens:
                yield join(held)
                held, tokens, rollouts = [], 0, 0
            if not held and piece.tokens > _SMALL * batch_tokens:
                yield piece
                continue
            held.append(piece)
            tokens, rollouts = tokens + piece.tokens, rollouts + len(piece)
    if held:
        yield join(held)


def join(batches: list[RolloutBatch]) -> RolloutBatch:
    """Return the rollouts of several batches as one; all have the same columns."""
    if len(batches) == 1:
        return batches[0]
    first = batches[0]
    starts = torch.tensor([0, *(batch.tokens for batch in batches[:-1])]).cumsum(0)
    offsets = [batch.offsets[1:] + start for batch, start in zip(batches, starts, strict=True)]
    tensors = {name: [getattr(batch, name) for batch in batches] for name in (*_TOKENS, "advantage")}
    return RolloutBatch(
        offsets=torch.cat([first.offsets[:1], *offsets]),
        columns=pl.concat([batch.columns for batch in batches]),
        advantage_per_token=first.advantage_per_token,
        nulls=_join_nulls(batches),
        **{name: torch.cat(parts) for name, parts in tensors.items() if parts[0] is not None},
    )


def select(batch: RolloutBatch, keep: Flags) -> RolloutBatch:
    """Return the rollouts [M] of a batch whose flag is set."""
    if keep.all():
        return batch
    edges = np.flatnonzero(np.diff(keep.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
    return join([rows_of(batch, int(first), int(last)) for first, last in edges] or [rows_of(batch, 0, 0)])


def _join_nulls(batches: list[RolloutBatch]) -> dict[str, Tensor]:
    return {
        name: torch.cat([batch.nulls.get(name, torch.zeros(batch.tokens, dtype=torch.bool)) for batch in batches])
        for name in LOGPROBS
        if any(name in batch.nulls for batch in batches)
    }


def _cut(batch: RolloutBatch, batch_tokens: int) -> Iterator[RolloutBatch]:
    if batch.tokens <= batch_tokens:
        yield batch
        return
    offsets, first = batch.offsets.numpy(), 0
    while first < len(batch):
        last = int(np.searchsorted(offsets, offsets[first] + batch_tokens, side="right")) - 1
        last = max(last, first + 1)
        yield rows_of(batch, first, last)
        first = last


def rows_of(batch: RolloutBatch, first: int, last: int) -> RolloutBatch:
    """Return the rollouts from ``first`` to before ``last`` of a batch."""
    offsets = batch.offsets[first : last + 1]
    start, end = int(offsets[0]), int(offsets[-1])
    advantage = batch.advantage
    if advantage is not None:
        advantage = advantage[start:end] if batch.advantage_per_token else advantage[first:last]
    return RolloutBatch(
        offsets=offsets - start,
        **{name: values[start:end] for name in _TOKENS if (values := getattr(batch, name)) is not None},
        advantage=advantage,
        advantage_per_token=batch.advantage_per_token,
        columns=batch.columns.slice(first, last - first),
        nulls={name: flags[start:end] for name, flags in batch.nulls.items()},
    )
