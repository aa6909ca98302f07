"""Figures and corrections of a ragged dump, token by token.

A rollout is a dict with ``trainer``, ``inference`` (lists of float), ``mask`` (list of bool) and ``advantage``.
Decisions are taken in float32, figures in Python floats.
"""

from __future__ import annotations

import math

import numpy as np


def differences(rollout):
    """Float32 log-ratios of the scored tokens, as Python floats."""
    found = []
    for t, v, m in zip(rollout["trainer"], rollout["inference"], rollout["mask"], strict=True):
        if m and all(x is not None and -9000 < x <= 0.2 for x in (t, v)):
            found.append(float(np.float32(t) - np.float32(v)))
    return found


def mean(values):
    return math.fsum(values) / len(values)


def ess(weights):
    squares = math.fsum(w * w for w in weights)
    return math.fsum(weights) ** 2 / squares if squares else 0.0


def summary(values):
    average = mean(values)
    return {
        "min": min(values),
        "mean": average,
        "max": max(values),
        "variance": math.fsum((x - average) ** 2 for x in values) / len(values),
        "square_about_one": math.fsum((x - 1) ** 2 for x in values) / len(values),
        "outside_half_two": mean([x < 0.5 or x > 2 for x in values]),
    }


def mismatch(rollouts):
    rows = [d for d in map(differences, rollouts) if d]
    tokens = [d for row in rows for d in row]
    k3 = [[math.expm1(d) - d for d in row] for row in rows]
    sums = [math.fsum(row) for row in rows]
    return {
        "k1": -mean(tokens),
        "k2": mean([d * d for d in tokens]) / 2,
        "k3": mean([x for row in k3 for x in row]),
        "k3_rollout_mean": mean([mean(row) for row in k3]),
        "abs_mean": mean([abs(d) for d in tokens]),
        "abs_max": max(abs(d) for d in tokens),
        "token_mult_prob_error": mean([math.exp(abs(d)) for d in tokens]),
        "token": summary([math.exp(d) for d in tokens]) | {"ess": ess([math.exp(d) for d in tokens])},
        "sequence": summary([math.exp(s) for s in sums]) | {"ess": ess([math.exp(s) for s in sums])},
        "geometric": summary([math.exp(mean(row)) for row in rows]) | {"ess": ess([math.exp(mean(r)) for r in rows])},
    }


def correct(kind, d, low, high):
    """Weight and fate of each token of one rollout: a list of (weight, fate); fate is "", or what happened."""
    ratios = [float(np.exp(np.float32(x))) for x in d]
    whole = math.fsum(d)
    if kind == "none":
        return [(1.0, "")] * len(d)
    if kind in ("token_truncate", "token_mask"):
        decided, exact = ratios, [math.exp(x) for x in d]
    elif kind in ("sequence_truncate", "sequence_mask"):
        decided, exact = [float(np.float32(math.exp(whole)))] * len(d), [math.exp(whole)] * len(d)
    else:
        assert kind == "geometric_mask"
        decided, exact = [float(np.float32(math.exp(whole / len(d))))] * len(d), [1.0] * len(d)
    outcome = []
    for ratio, weight in zip(decided, exact, strict=True):
        below, above = low is not None and ratio < np.float32(low), high is not None and ratio > np.float32(high)
        if kind.endswith("truncate"):
            outcome.append((low, "low") if below else (high, "high") if above else (weight, ""))
        else:
            outcome.append((0.0, "masked low") if below else (0.0, "masked high") if above else (weight, ""))
    return outcome


def recipe(rollouts, kind, low, high):
    """Figures of one correction."""
    rows = [(d, correct(kind, d, low, high)) for d in map(differences, rollouts) if d]
    per_token = kind.startswith("token")
    tokens = [x for _, row in rows for x in row]
    weights = [w for w, _ in tokens]
    of_rollouts = [mean([w for w, _ in row]) for _, row in rows]
    k3 = [[math.expm1(x) - x for x in d] for d, _ in rows]
    fates = [[fate for _, fate in row] for _, row in rows]

    def split(wanted):
        rows_of = [
            [k for k, f in zip(ks, fs, strict=True) if f.startswith("masked") is wanted]
            for ks, fs in zip(k3, fates, strict=True)
        ]
        pooled = [k for row in rows_of for k in row]
        return {
            "token": mean(pooled) if pooled else None,
            "rollout_mean": mean([mean(row) if row else 0.0 for row in rows_of]),
        }

    def tally(test):
        hit = [[test(f) for f in fs] for fs in fates]
        return {"tokens": sum(map(sum, hit)), "rollouts": sum(map(any, hit))}

    return {
        "applied": summary(weights if per_token else of_rollouts),
        "masked": {
            "tokens": tally(lambda f: f.startswith("masked"))["tokens"],
            "rollouts": sum(all(f.startswith("masked") for f in fs) for fs in fates),
        },
        "masked_low": tally(lambda f: f == "masked low")["tokens"],
        "masked_high": tally(lambda f: f == "masked high")["tokens"],
        "truncated": tally(lambda f: f in ("low", "high")),
        "truncated_low": tally(lambda f: f == "low")["tokens"],
        "truncated_high": tally(lambda f: f == "high")["tokens"],
        "modified": tally(bool),
        "kept": tally(lambda f: not f.startswith("masked")),
        "ess": {"token": ess(weights), "rollout": ess(of_rollouts)},
        "masked_mismatch_kl": split(True),
        "unmasked_mismatch_kl": split(False),
        "weights": weights,
    }
