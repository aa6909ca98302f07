"""Columns by the probability q that the inference engine gave the sampled token."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from iscope.ledger import histogram
from iscope.ledger.histogram import Counts
from iscope.recipes.model import Pair
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
    inference = view.inference
    bucket = sum((inference >= math.log(edge)).to(torch.int64) for edge in EDGES)
    key = segments.expand(torch.arange(segments.rows) * BUCKETS) + bucket
    magnitude = view.exact(pair).abs()
    sums: dict[str, Tensor | None] = {"tokens": None, "k3": view.k3(pair), "abs": magnitude}
    if view.advantage is not None:
        sums["gradient"] = view.token_advantage.abs() * view.uncertainty
    columns: dict[str, Tensor] = {}
    for name, values in sums.items():
        table = torch.bincount(key, values, minlength=segments.rows * BUCKETS).reshape(segments.rows, BUCKETS)
        columns |= {f"p{index}:{name}": table[:, index].contiguous() for index in range(BUCKETS)}
    uncertain = (inference < math.log(_GAP_BELOW)).nonzero().squeeze(1)
    gap = magnitude[uncertain] / -inference[uncertain].double().expm1()
    return columns, histogram.count(histogram.bin_of(gap))
