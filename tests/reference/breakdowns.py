"""Figures by the probability of the token, of the lag, and of parts of a dump, token by token.

A rollout is a dict with ``trainer``, ``inference`` (lists of float), ``mask`` (list of bool) and ``advantage``.
"""

from __future__ import annotations

import math

import numpy as np

from tests.reference import slow

BUCKETS = [(0.0, 0.1), (0.1, 0.5), (0.5, 0.9), (0.9, 1.0)]


def tokens_of(rollout):
    """(p, q, d, advantage) of each scored token."""
    found = []
    for t, v, m in zip(rollout["trainer"], rollout["inference"], rollout["mask"], strict=True):
        if m and all(x is not None and -9000 < x <= 0.2 for x in (t, v)):
            d = float(np.float32(t) - np.float32(v))
            found.append((math.exp(np.float32(t)), math.exp(np.float32(v)), d, rollout["advantage"]))
    return found


def gradient(token):
    """Size of an uncorrected token's gradient, abs(A) (1 - p)."""
    p, _, _, advantage = token
    return abs(advantage) * max(0.0, 1 - p)


def share(part, whole):
    return part / whole if whole else None


def by_p(rollouts):
    tokens = [token for rollout in rollouts for token in tokens_of(rollout)]
    k3_of_all = math.fsum(math.expm1(d) - d for _, _, d, _ in tokens)
    gradient_of_all = math.fsum(map(gradient, tokens))
    rows = []
    for low, high in BUCKETS:
        mine = [token for token in tokens if low <= token[1] and (token[1] < high or high == 1.0)]
        k3 = math.fsum(math.expm1(d) - d for _, _, d, _ in mine)
        rows.append(
            {
                "tokens": len(mine),
                "token_share": share(len(mine), len(tokens)),
                "k3": share(k3, len(mine)),
                "k3_share": share(k3, k3_of_all),
                "abs_mean": share(math.fsum(abs(d) for _, _, d, _ in mine), len(mine)),
                "gradient_share": share(math.fsum(map(gradient, mine)), gradient_of_all),
            }
        )
    return rows


def gap(rollouts):
    """Median, the smaller of two middle values, of abs(d) / (1 - q) where q < 0.999; None where there is none."""
    values = sorted(abs(d) / (1 - q) for r in rollouts for _, q, d, _ in tokens_of(r) if q < 0.999)
    return values[math.ceil(len(values) / 2) - 1] if values else None


def estimators(pairs):
    """k1, k3, mean and largest abs(d) of (numerator, denominator) logprobs."""
    d = [float(np.float32(a) - np.float32(b)) for a, b in pairs]
    return {
        "k1": -slow.mean(d),
        "k3": slow.mean([math.expm1(x) - x for x in d]),
        "abs_mean": slow.mean([abs(x) for x in d]),
        "abs_max": max(abs(x) for x in d),
    }


def headline(rollouts):
    """Figures of one part of a dump."""
    rows = [tokens_of(rollout) for rollout in rollouts]
    d = [token[2] for row in rows for token in row]
    return {
        "rollouts": len(rows),
        "tokens": len(d),
        "k1": -slow.mean(d),
        "k3": slow.mean([math.expm1(x) - x for x in d]),
        "abs_max": max(abs(x) for x in d),
        "ess_token_fraction": slow.ess([math.exp(x) for x in d]) / len(d),
        "ess_sequence_fraction": slow.ess([math.exp(math.fsum(t[2] for t in row)) for row in rows]) / len(rows),
        "minus_log_p": -slow.mean([math.log(t[0]) for row in rows for t in row]),
        "length": len(d) / len(rows),
        "zero_advantage": slow.mean([r["advantage"] == 0 for r in rollouts]),
    }


def corrected(rollouts, weight, keep):
    """What a correction with a loss -A w log pi leaves of one part of a dump.

    Args:
        rollouts: those with scored tokens.
        weight: log-ratio to the token's weight.
        keep: log-ratios of a rollout to a list of bool.
    """
    after, before, kept = [], [], []
    for rollout in rollouts:
        tokens = tokens_of(rollout)
        flags = keep([token[2] for token in tokens])
        sign = "positive" if rollout["advantage"] > 0 else "negative"
        size = [gradient(token) * weight(token[2]) * flag for token, flag in zip(tokens, flags, strict=True)]
        after.append((sign, math.fsum(size)))
        before.append((sign, math.fsum(map(gradient, tokens))))
        kept.append(sum(flags))

    def left(*signs):
        return share(math.fsum(g for s, g in after if s in signs), math.fsum(g for s, g in before if s in signs))

    return {
        "effective": slow.ess([g for _, g in after]),
        "base": slow.ess([g for _, g in before]),
        "all": left("positive", "negative"),
        "positive": left("positive"),
        "negative": left("negative"),
        "kept_tokens": sum(kept),
        "kept_rollouts": sum(n > 0 for n in kept),
        "masked_rollouts": share(sum(n == 0 for n in kept), len(kept)),
    }
