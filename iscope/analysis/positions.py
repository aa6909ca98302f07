"""How the mismatch runs along a rollout: by the place of a token from its rollout's first loss token on."""

from __future__ import annotations

from typing import Any

import numpy as np

from iscope.analysis.findings.tokens import Tokens
from iscope.analysis.numbers import share
from iscope.model import Node
from iscope.replay.compiled import LANES, compiled
from iscope.replay.exponential import expm1_and_rest
from iscope.replay.view import EXPONENT_LIMIT

_OCTAVES = 63


def positions(tokens: Tokens) -> list[Node]:
    """Return k3 and mean abs(d), nats per token, in octaves of positions: 0, 1-2, 3-6, 7-14, ..."""
    sums = np.zeros((3, _OCTAVES))
    _sum_octaves(sums, tokens.starts, tokens.lengths, tokens.first, tokens.place, tokens.log_ratio)
    return [
        {
            "low": 2**power - 1,
            "high": 2 ** (power + 1) - 2,
            "tokens": int(count),
            "k3": share(k3, count),
            "abs_mean": share(size, count),
        }
        for power, (count, k3, size) in enumerate(sums.T.tolist())
        if count
    ]


@compiled(LANES)
def _sum_octaves(sums: Any, starts: Any, lengths: Any, first: Any, place: Any, log_ratio: Any) -> None:
    """Add 1, k3 and abs(d) of tokens by octave of their positions: float64 [3, octaves].

    Args:
        sums: what to add to.
        starts: where the tokens of each rollout begin, int64 [N].
        lengths: how many they are, int64 [N].
        first: where the first loss token of each rollout stands, int64 [N].
        place: where each token stands, rising within a rollout, int64 [P].
        log_ratio: d [P], nats.
    """
    for rollout in range(len(starts)):
        token, stop, octave = starts[rollout], starts[rollout] + lengths[rollout], 0
        while token < stop:
            beyond, end = first[rollout] + 2 ** (octave + 1) - 1, token
            while end < stop and place[end] < beyond:
                end += 1
            k3 = size = 0.0
            for at in range(token, end):
                d = min(max(np.float64(log_ratio[at]), -EXPONENT_LIMIT), EXPONENT_LIMIT)
                k3 += expm1_and_rest(d)[1]
                size += abs(d)
            sums[0, octave] += end - token
            sums[1, octave] += k3
            sums[2, octave] += size
            token, octave = end, octave + 1
