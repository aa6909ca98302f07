"""Columns by the probability q that the inference engine gave the sampled token."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from iscope.ledger.kernels.tokens import BUCKETS, EDGES
from iscope.recipes.model import Pair
from iscope.replay.segments import Array, on_cpu
from iscope.replay.view import TokenView

# Logprob of a token so certain that it says nothing about the gap: 1 - q is all rounding.
CERTAIN = math.log(0.999)


def measure_by_p(view: TokenView) -> dict[str, Tensor]:
    """Measure the mismatch of trainer over inference by q.

    Returns:
        Per bucket ``p0:`` to ``p3:`` and rollout [N]: tokens, k3 and abs(d) summed (nats), and the uncorrected gradient
        abs(A) (1 - p) where there are advantages.
    """
    pair, segments = Pair.TRAINER_INFERENCE, view.segments
    sums = {"k3": view.k3(pair), "abs": view.exact(pair).abs()}
    if view.advantage is not None:
        sums["gradient"] = view.uncertainty if not view.advantage_per_token else view.uncertainty * view.advantage.abs()
    if not on_cpu(view.inference):
        return by_bucket(view, _tables(view, sums))
    key = _keys(view)
    size = segments.rows * BUCKETS
    tables = {"tokens": np.bincount(key, minlength=size)}
    tables |= {name: np.bincount(key, values.numpy(), minlength=size) for name, values in sums.items()}
    return by_bucket(view, {name: torch.from_numpy(t).reshape(segments.rows, BUCKETS).T for name, t in tables.items()})


def _tables(view: TokenView, sums: dict[str, Tensor]) -> dict[str, Tensor]:
    """Sums over the tokens of each bucket and rollout [BUCKETS, N]; bincount adds in an order of chance on a GPU."""
    q, segments = view.inference, view.segments
    above = torch.stack([q >= math.log(edge) for edge in EDGES]).sum(0)
    inside = [above == bucket for bucket in range(BUCKETS)]
    found = {"tokens": torch.stack([segments.count(flags) for flags in inside])}
    for name, values in sums.items():
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


def _keys(view: TokenView) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Row and bucket of each token as one number."""
    key = np.repeat(np.arange(0, view.segments.rows * BUCKETS, BUCKETS), view.segments.lengths.numpy())
    key += bucket_of(view.inference.numpy())
    return key


def bucket_of(inference: Array) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Bucket of each inference logprob [P]."""
    bucket = (inference >= math.log(EDGES[0])).view(np.uint8)
    for edge in EDGES[1:]:
        bucket += (inference >= math.log(edge)).view(np.uint8)
    return bucket


def gaps_of(inference: Tensor, log_ratio: Tensor) -> tuple[Tensor, Tensor]:
    """abs(d) / (1 - q) of each token, float32 [P], and the tokens with q >= 0.999, which do not count.

    Args:
        inference: logprobs [P], nats.
        log_ratio: of trainer over inference [P], nats.
    """
    return (log_ratio.double().abs() / -inference.double().expm1()).float(), inference >= CERTAIN
