"""Columns by the probability q that the inference engine gave the sampled token."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from iscope.ledger.kernels.outside import sum_outside_by_bucket
from iscope.ledger.kernels.tokens import BUCKETS, EDGES
from iscope.recipes.model import Pair
from iscope.replay.segments import Array, on_cpu
from iscope.replay.view import TokenView

# Logprob of a token so certain that it says nothing about the gap: 1 - q is all rounding.
CERTAIN = math.log(0.999)

_PAIR = Pair.TRAINER_INFERENCE


def measure_by_p(view: TokenView) -> dict[str, Tensor]:
    """Measure the mismatch of trainer over inference by q.

    Returns:
        Per bucket ``p0:`` to ``p3:`` and rollout [N]: tokens, k3 and abs(d) summed (nats), and the uncorrected gradient
        abs(A) (1 - p) where there are advantages.
    """
    gradient = None
    if view.advantage is not None:
        gradient = view.uncertainty if not view.advantage_per_token else view.uncertainty * view.advantage.abs()
    tables = _tables if on_cpu(view.inference) else _tables_on_device
    return by_bucket(view, tables(view, gradient))


def _tables(view: TokenView, gradient: Tensor | None) -> dict[str, Tensor]:
    """Sums over the tokens of each bucket and rollout [BUCKETS, N]."""
    k3, exact, q = view.k3(_PAIR).numpy(), view.exact(_PAIR).numpy(), view.inference.numpy()
    last = k3 if gradient is None else gradient.numpy()
    sums = np.empty((4, BUCKETS, view.segments.rows))
    sum_outside_by_bucket(sums, view.segments.offsets.numpy(), q, log_edges(q.dtype), last, k3, exact)
    table = torch.from_numpy(sums)
    found = {"tokens": table[0].long(), "k3": table[1], "abs": table[2]}
    return found if gradient is None else found | {"gradient": table[3]}


def _tables_on_device(view: TokenView, gradient: Tensor | None) -> dict[str, Tensor]:
    """The same on any device."""
    q, segments = view.inference, view.segments
    above = torch.stack([q >= math.log(edge) for edge in EDGES]).sum(0)
    inside = [above == bucket for bucket in range(BUCKETS)]
    found = {"tokens": torch.stack([segments.count(flags) for flags in inside])}
    sums = {"k3": view.k3(_PAIR), "abs": view.exact(_PAIR).abs(), "gradient": gradient}
    for name, values in sums.items():
        if values is not None:
            found[name] = torch.stack([segments.sum(values.masked_fill(~flags, 0.0)) for flags in inside])
    return found


def by_bucket(view: TokenView, tables: dict[str, Tensor]) -> dict[str, Tensor]:
    """Name the columns of tables [BUCKETS, N], the gradient times abs(A) where that is one per rollout."""
    columns: dict[str, Tensor] = {}
    for name, table in tables.items():
        if name == "gradient" and view.advantage is not None and not view.advantage_per_token:
            table = table * view.advantage.abs()
        columns |= {f"p{index}:{name}": table[index].contiguous() for index in range(BUCKETS)}
    return columns


def log_edges(kind: np.dtype[Any]) -> Array:
    """Log of the edges between buckets in the precision of the logprobs."""
    return np.log(EDGES).astype(kind)


def gaps_of(inference: Tensor, log_ratio: Tensor) -> tuple[Tensor, Tensor]:
    """abs(d) / (1 - q) of each token, float32 [P], and the tokens with q >= 0.999, which do not count.

    Args:
        inference: logprobs [P], nats.
        log_ratio: of trainer over inference [P], nats.
    """
    return (log_ratio.double().abs() / -inference.double().expm1()).float(), inference >= CERTAIN
