"""What the tokens outside the screen give of a policy pair, before any recipe."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from iscope.ledger.kernels.tokens import fill_codes, sum_buckets
from iscope.replay.compiled import LANES, compiled, tokens_of

SUMS = (
    "log_ratio_sq",
    "abs_sum",
    "exp_abs_sum",
    "weight_sum",
    "weight_sq",
    "excess_sum",
    "excess_sq",
    "k3_sum",
)
"""Sums of d^2, abs(d), exp(abs(d)), rho, rho^2, rho - 1, (rho - 1)^2 and k3."""

EXTREMES = ("log_ratio_min", "log_ratio_max")

COUNTS = ("below_half", "above_two", "at_limit")
"""How many tokens have rho < 1/2, rho > 2, and abs(d) at the limit of the exponents."""


@compiled(LANES)
def sum_outside(sums: Any, offsets: Any, exact: Any, excess: Any, weight: Any, k3: Any) -> None:
    """Write ``SUMS`` of each rollout, float64 [8, N].

    Args:
        sums: where to write.
        offsets: int64 [N + 1].
        exact: d within the limit of the exponents, float64 [P], nats.
        excess: rho - 1, float64 [P].
        weight: rho, float64 [P].
        k3: float64 [P], nats.
    """
    for row in range(len(offsets) - 1):
        d_sq = size = exp_size = w_sum = w_sq = e_sum = e_sq = k3_sum = 0.0
        for token in tokens_of(offsets, row):
            d, w, e = exact[token], weight[token], excess[token]
            d_sq += d * d
            size += abs(d)
            exp_size += w if d >= 0.0 else 1.0 / w
            w_sum += w
            w_sq += w * w
            e_sum += e
            e_sq += e * e
            k3_sum += k3[token]
        sums[0, row], sums[1, row], sums[2, row], sums[3, row] = d_sq, size, exp_size, w_sum
        sums[4, row], sums[5, row], sums[6, row], sums[7, row] = w_sq, e_sum, e_sq, k3_sum


@compiled()
def count_outside(counts: Any, offsets: Any, ratio: Any, exact: Any, limit: float) -> None:
    """Write ``COUNTS`` of each rollout, int64 [3, N].

    Args:
        counts: where to write.
        offsets: int64 [N + 1].
        ratio: rho [P], in the precision of the decisions.
        exact: d within the limit of the exponents, float64 [P], nats.
        limit: of the exponents.
    """
    for row in range(len(offsets) - 1):
        below = above = limited = 0
        for token in tokens_of(offsets, row):
            below += ratio[token] < 0.5
            above += ratio[token] > 2.0
            limited += abs(exact[token]) >= limit
        counts[0, row], counts[1, row], counts[2, row] = below, above, limited


@compiled()
def find_range(found: Any, offsets: Any, log_ratio: Any) -> None:
    """Write the smallest and the largest d of each rollout, float64 [2, N]; infinite without tokens."""
    for row in range(len(offsets) - 1):
        lowest, highest = math.inf, -math.inf
        for token in tokens_of(offsets, row):
            d = np.float64(log_ratio[token])
            lowest, highest = min(lowest, d), max(highest, d)
        found[0, row], found[1, row] = lowest, highest


@compiled()
def sum_outside_by_bucket(
    sums: Any, offsets: Any, inference: Any, edges: Any, certainty: Any, k3: Any, exact: Any
) -> None:
    """Sum 1, k3, abs(d) and what is given for p - 1 by bucket of q, float64 [4, BUCKETS, N], as ``sum_buckets`` does.

    Args:
        sums: where to write.
        offsets: int64 [N + 1].
        inference: logprobs [P], nats.
        edges: log of the edges between buckets, in the precision of the logprobs.
        certainty: float64 [P].
        k3: float64 [P], nats.
        exact: d within the limit of the exponents, float64 [P], nats.
    """
    codes, inside = np.empty(len(k3), dtype=np.float32), np.zeros(len(k3), dtype=np.bool_)
    fill_codes(codes, inference, inside, edges)
    sum_buckets(sums, 0, offsets, codes, certainty, k3, exact)
