"""What a recipe leaves of the gradient, rollout by rollout, from plain lists.

Each rollout: ``logp`` (of the policy that is differentiated), ``advantage``, ``group``, ``s`` (sum of the recipe's
log-ratios), ``loss_tokens``, and per token ``weight`` (applied, 0 where rejected) and ``keep``. The loss is
-A w log pi or -A w.
"""

from __future__ import annotations

import math


def size(rollout, weights):
    return math.fsum(
        abs(rollout["advantage"] * w) * (1 - math.exp(lp)) for w, lp in zip(weights, rollout["logp"], strict=True)
    )


def effective(g):
    squares = math.fsum(x * x for x in g)
    return math.fsum(g) ** 2 / squares if squares else 0.0


def both_signs(rollouts, g):
    signs = {}
    for rollout, x in zip(rollouts, g, strict=True):
        if x > 0:
            signs.setdefault(rollout["group"], set()).add(rollout["advantage"] > 0)
    return sum(len(found) == 2 for found in signs.values())


def figures(rollouts):
    tokens = sum(r["loss_tokens"] for r in rollouts)
    rollouts = [r for r in rollouts if r["logp"]]
    kept = [size(r, r["weight"]) for r in rollouts]
    base = [size(r, [1.0] * len(r["logp"])) for r in rollouts]
    survivors = sum(sum(r["keep"]) for r in rollouts)

    def left(chosen, factor=1.0):
        whole = math.fsum(b for r, b in zip(rollouts, base, strict=True) if chosen(r))
        part = math.fsum(k for r, k in zip(rollouts, kept, strict=True) if chosen(r))
        return part * factor / whole if whole else None

    def product_left():
        whole, away = math.fsum(kept), 0.0
        for r, g in zip(rollouts, kept, strict=True):
            mean_weight = math.fsum(r["weight"]) / len(r["weight"])
            if mean_weight == 0 or abs(r["s"] - math.log(mean_weight)) > math.log(2):
                away += g
        return away / whole if whole else None

    order = sorted(kept, reverse=True)
    return {
        "effective": effective(kept),
        "base": effective(base),
        "all": left(lambda r: True),
        "positive": left(lambda r: r["advantage"] > 0),
        "negative": left(lambda r: r["advantage"] < 0),
        "survivors": left(lambda r: True, tokens / survivors) if survivors else None,
        "heaviest_rollout": order[0] / math.fsum(kept) if math.fsum(kept) else None,
        "groups": (both_signs(rollouts, kept), both_signs(rollouts, base)),
        "product_left": product_left(),
    }
