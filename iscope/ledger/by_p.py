"""Columns by the probability q that the inference engine gave the sampled token."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from iscope.ledger import histogram
from iscope.ledger.histogram import Counts
from iscope.recipes.model import Pair
from iscope.replay.segments import expm1
from iscope.replay.view import TokenView

# Buckets q < 0.1, 0.1 to 0.5, 0.5 to 0.9, and 0.9 and more.
EDGES = (0.1, 0.5, 0.9)
BUCKETS = len(EDGES) + 1
# Tokens this certain say nothing about the gap: 1 - q is all rounding.
_GAP_BELOW = 0.999


def measure_by_p(view: TokenView) -> tuple[dict[str, Tensor], Counts]:
    """Measure the mismatch of trainer over inference by q.

    Returns:
        Per bucket ``p0:`` to ``p3:`` and rollout [N]: tokens, k3 and abs(d) summed (nats), and the uncorrected gradient
        abs(A) (1 - p) where there are advantages; and the histogram of abs(d) / (1 - q) over tokens with q < 0.999.
    """
    pair, segments = Pair.TRAINER_INFERENCE, view.segments
    magnitude = view.exact(pair).abs()
    sums = {"k3": view.k3(pair), "abs": magnitude}
    if view.advantage is not None:
        sums["gradient"] = view.uncertainty if not view.advantage_per_token else view.uncertainty * view.advantage.abs()
    key = _keys(view)
    size = segments.rows * BUCKETS
    tables = {"tokens": np.bincount(key, minlength=size)}
    tables |= {name: np.bincount(key, values.numpy(), minlength=size) for name, values in sums.items()}
    columns: dict[str, Tensor] = {}
    for name, flat in tables.items():
        table = torch.from_numpy(flat).reshape(segments.rows, BUCKETS)
        if name == "gradient" and view.advantage is not None and not view.advantage_per_token:
            table = table * view.advantage.abs().unsqueeze(1)
        columns |= {f"p{index}:{name}": table[:, index].contiguous() for index in range(BUCKETS)}
    return columns, _gaps(view)


def _keys(view: TokenView) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Row and bucket of each token as one number."""
    inference = view.inference.numpy()
    bucket = (inference >= math.log(EDGES[0])).view(np.uint8)
    for edge in EDGES[1:]:
        bucket += (inference >= math.log(edge)).view(np.uint8)
    key = np.repeat(np.arange(0, view.segments.rows * BUCKETS, BUCKETS), view.segments.lengths.numpy())
    key += bucket
    return key


def _gaps(view: TokenView) -> Counts:
    """Histogram of abs(d) / (1 - q) over the tokens that are not certain; float32 is finer than its bins."""
    inference = view.inference.numpy()
    gap = view.log_ratio(Pair.TRAINER_INFERENCE).abs() / expm1(view.inference).neg_()
    bins = histogram.bin_of(gap)
    bins[torch.from_numpy(inference >= math.log(_GAP_BELOW))] = histogram.ZERO_WEIGHT
    counts = histogram.count(bins)
    counts[histogram.ZERO_WEIGHT] = 0
    return counts
