"""keep(T) written out rollout by rollout, in plain Python."""

from __future__ import annotations

import math

PRIOR_TOKENS = 8


def normal(x):
    if math.isinf(x):
        return 1.0 if x > 0 else 0.0
    return 0.5 * math.erfc(-x / math.sqrt(2))


def chance(rollouts, low, high, length, *, geometric, among=None):
    """Chance that a rollout of so many tokens lies within a band on S or G, nats.

    Args:
        rollouts: the log-ratios of each rollout's tokens; none is empty.
        low: lower bound of S or G.
        high: upper bound.
        length: in tokens.
        geometric: whether the bounds are on G.
        among: the rollouts whose noise counts; all by default.
    """
    every = [d for tokens in rollouts for d in tokens]
    drift = sum(every) / len(every)
    variance = sum((d - drift) ** 2 for d in every) / len(every)
    if geometric:
        low, high = low * length, high * length
    total = 0.0
    among = rollouts if among is None else among
    for tokens in among:
        own = (sum((d - drift) ** 2 for d in tokens) + PRIOR_TOKENS * variance) / (len(tokens) + PRIOR_TOKENS)
        mean, deviation = drift * own / variance * length, math.sqrt(own * length)
        total += normal((high - mean) / deviation) - normal((low - mean) / deviation)
    return total / len(among)
