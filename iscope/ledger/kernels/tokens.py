"""Where tokens stand: outside the screen or inside, there by q; and sums over the tokens of each rollout."""

from __future__ import annotations

from typing import Any

import numpy as np

from iscope.replay.compiled import LANES, compiled, tokens_of

# Buckets of the probability q that the inference engine gave the sampled token.
EDGES = (0.1, 0.5, 0.9)
BUCKETS = len(EDGES) + 1
# The code of a token outside; those inside have their bucket's. Floats, since those are compared in lanes.
OUTSIDE = float(BUCKETS)


@compiled()
def flag_outside(flags: Any, log_ratio: Any, low: Any, high: Any) -> None:
    """Set the flags [P] of the tokens whose log-ratio [P] is below ``low`` or above ``high``."""
    for token in range(len(flags)):
        flags[token] |= (log_ratio[token] < low) | (log_ratio[token] > high)


@compiled()
def fill_codes(codes: Any, inference: Any, flags: Any, edges: Any) -> None:
    """Write the code of each token.

    Args:
        codes: where to write, float32 [P].
        inference: logprobs [P], nats.
        flags: bool [P], whether each is outside.
        edges: log of ``EDGES``, in the precision of the logprobs.
    """
    low, middle, high = edges[0], edges[1], edges[2]
    for token in range(len(codes)):
        q = inference[token]
        bucket = np.float32(q >= low) + np.float32(q >= middle) + np.float32(q >= high)
        codes[token] = np.float32(OUTSIDE) if flags[token] else bucket


@compiled(LANES)
def sum_buckets(sums: Any, row: int, offsets: Any, codes: Any, certainty: Any, k3: Any, log_ratio: Any) -> None:
    """Sum 1, k3, abs(d) and what is given for p - 1 over each rollout's tokens of each bucket: float64 [4, BUCKETS, N].

    Args:
        sums: where to write.
        row: where the first rollout of the block stands.
        offsets: the rollouts of the block.
        codes: of its tokens [P].
        certainty: float64 [P].
        k3: float64 [P], nats.
        log_ratio: d [P], nats.
    """
    for rollout in range(len(offsets) - 1):
        n0 = n1 = n2 = n3 = k0 = k1 = k2 = k3_ = a0 = a1 = a2 = a3 = c0 = c1 = c2 = c3 = 0.0
        for token in tokens_of(offsets, rollout):
            code, k, a, c = codes[token], k3[token], abs(np.float64(log_ratio[token])), certainty[token]
            in0, in1, in2, in3 = code == 0.0, code == 1.0, code == 2.0, code == 3.0
            n0 += 1.0 if in0 else 0.0
            n1 += 1.0 if in1 else 0.0
            n2 += 1.0 if in2 else 0.0
            n3 += 1.0 if in3 else 0.0
            k0 += k if in0 else 0.0
            k1 += k if in1 else 0.0
            k2 += k if in2 else 0.0
            k3_ += k if in3 else 0.0
            a0 += a if in0 else 0.0
            a1 += a if in1 else 0.0
            a2 += a if in2 else 0.0
            a3 += a if in3 else 0.0
            c0 += c if in0 else 0.0
            c1 += c if in1 else 0.0
            c2 += c if in2 else 0.0
            c3 += c if in3 else 0.0
        at = row + rollout
        sums[0, 0, at], sums[0, 1, at], sums[0, 2, at], sums[0, 3, at] = n0, n1, n2, n3
        sums[1, 0, at], sums[1, 1, at], sums[1, 2, at], sums[1, 3, at] = k0, k1, k2, k3_
        sums[2, 0, at], sums[2, 1, at], sums[2, 2, at], sums[2, 3, at] = a0, a1, a2, a3
        sums[3, 0, at], sums[3, 1, at], sums[3, 2, at], sums[3, 3, at] = c0, c1, c2, c3
