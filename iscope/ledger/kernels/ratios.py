"""What the log-ratios d of a policy pair give, over the tokens inside the screen of each rollout."""

from __future__ import annotations

from typing import Any

import numpy as np

from iscope.ledger.kernels.tokens import OUTSIDE
from iscope.replay.compiled import LANES, compiled, tokens_of
from iscope.replay.exponential import expm1_and_rest

SUMS = ("log_ratio_sq", "abs_sum", "exp_abs_sum", "excess_sum", "excess_sq", "k3_sum", "weighted")
"""Sums of d^2, abs(d), exp(abs(d)), rho - 1, (rho - 1)^2, k3, and rho times p - 1."""


@compiled()
def fill_certainty(certainty: Any, policy: Any) -> None:
    """Write p - 1 of each token, at most 0, and 0 where p is no number: float64 [P] from logprobs [P]."""
    for token in range(len(policy)):
        excess, _ = expm1_and_rest(np.float64(policy[token]))
        certainty[token] = excess if excess < 0.0 else 0.0


@compiled()
def fill_excess(excess: Any, k3: Any, log_ratio: Any) -> None:
    """Write rho - 1 and k3 = rho - 1 - d of each token: float64 [P] each, from d [P]."""
    for token in range(len(log_ratio)):
        excess[token], k3[token] = expm1_and_rest(np.float64(log_ratio[token]))


@compiled(LANES)
def sum_inside(
    sums: Any, row: int, offsets: Any, codes: Any, log_ratio: Any, excess: Any, k3: Any, certainty: Any
) -> None:
    """Write ``SUMS`` of each rollout of a block, float64 [7, N], whose first one stands at ``row``.

    Args:
        sums: where to write.
        row: where the first rollout of the block stands.
        offsets: the rollouts of the block.
        codes: of its tokens [P] (``iscope.ledger.kernels.tokens``).
        log_ratio: d [P], nats.
        excess: rho - 1, float64 [P].
        k3: float64 [P], nats.
        certainty: p - 1, float64 [P].
    """
    for rollout in range(len(offsets) - 1):
        d_sq = size = exp_size = e_sum = e_sq = k3_sum = weighted = 0.0
        for token in tokens_of(offsets, rollout):
            inside = codes[token] != OUTSIDE
            d = np.float64(log_ratio[token]) if inside else 0.0
            e = excess[token] if inside else 0.0
            exp_of_size = 1.0 + e if d >= 0.0 else 1.0 / (1.0 + e)
            d_sq += d * d
            size += abs(d)
            exp_size += exp_of_size if inside else 0.0
            e_sum += e
            e_sq += e * e
            k3_sum += k3[token] if inside else 0.0
            weighted += certainty[token] * e + certainty[token] if inside else 0.0
        at = row + rollout
        sums[0, at], sums[1, at], sums[2, at], sums[3, at] = d_sq, size, exp_size, e_sum
        sums[4, at], sums[5, at], sums[6, at] = e_sq, k3_sum, weighted


@compiled(LANES)
def sum_by_sign(sums: Any, row: int, offsets: Any, codes: Any, weighted: Any, size: Any, signal: Any) -> None:
    """Sum a gradient by the sign of its signal over each rollout of a block, float64 [2, N]: positive, negative.

    Args:
        sums: where to write.
        row: where the first rollout of the block stands.
        offsets: the rollouts of the block.
        codes: of its tokens [P].
        weighted: the weight times p - 1, float64 [P].
        size: abs(c_t), float64 [P].
        signal: float64 [P].
    """
    for rollout in range(len(offsets) - 1):
        positive = negative = 0.0
        for token in tokens_of(offsets, rollout):
            inside = codes[token] != OUTSIDE
            g = size[token] * -weighted[token]
            positive += g if inside and signal[token] > 0.0 else 0.0
            negative += g if inside and signal[token] < 0.0 else 0.0
        sums[0, row + rollout], sums[1, row + rollout] = positive, negative
