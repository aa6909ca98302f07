"""What frameworks divide the loss of a rollout by, counted out over plain lists, and what is left of a gradient by it.

Each rollout: ``loss_tokens``, ``left`` (those that filters leave in the loss mask), ``kept`` (scored tokens that are
not rejected), ``gone`` (dropped as a whole), ``batch``, ``group``, ``g`` (sum of abs(c) (1 - p) before any division,
kept) and ``base`` (the same uncorrected).
"""

from __future__ import annotations

import math


def divisor(rollout, rollouts, tokens, kind, counts, epsilon=0.0):
    """``tokens`` names what is counted, ``counts`` says which rollouts are."""
    batch = [r for r in rollouts if r["batch"] == rollout["batch"]]
    counted = [r for r in batch if counts(r)]
    if kind == "token-sum":
        return 1.0
    if kind == "token-mean":
        return max(sum(r[tokens] for r in batch), 1) + epsilon
    if kind == "prompt-mean":
        group = sum(r[tokens] for r in batch if r["group"] == rollout["group"])
        return max(len({r["group"] for r in counted}), 1) * max(group, 1)
    size = max(len(counted), 1) + epsilon
    return size * max(rollout[tokens], 1) if kind == "seq-mean-token-mean" else size


def left(rollouts, kind, counts="all", counts_dropped=False, epsilon=0.0):
    """Gradient left with the framework's denominators, and with those of what is kept."""
    chosen = {
        "all": (lambda r: True, lambda r: True),
        "filled": (lambda r: r["loss_tokens"] > 0, lambda r: r["left"] > 0),
        "undropped": (lambda r: True, lambda r: not r["gone"]),
    }[counts]
    dropped = "loss_tokens" if counts_dropped and kind == "token-mean" else "left"

    def total(name, tokens, which, add=0.0):
        return math.fsum(r[name] / divisor(r, rollouts, tokens, kind, which, add) for r in rollouts)

    base = total("base", "loss_tokens", chosen[0], epsilon)
    plain = total("base", "loss_tokens", chosen[0])
    return {
        "all": total("g", dropped, chosen[1], epsilon) / base,
        "survivors": total("g", "kept", lambda r: r["kept"] > 0) / plain,
    }
