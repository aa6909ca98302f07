"""The papers' corrections and losses written out plainly, rollout by rollout, for autograd.

A rollout is a dictionary of float64 tensors over its loss tokens, ``trainer``, ``inference`` and ``current``, and the
number ``advantage``. Nothing is tensor work beyond one rollout, and no function knows another's layout.
"""

from __future__ import annotations

import math

import torch

OPTIONS = {
    "epsilon": 0.2,
    "gspo_low": 3e-4,
    "gspo_high": 4e-4,
    "gmpo_epsilon": 0.4,
    "cispo_high": 5.0,
    "tau_pos": 1.0,
    "tau_neg": 1.05,
    "k_pos": 2.0,
    "lambda_pos": 3.0,
    "k_neg": 3.0,
    "lambda_neg": 2.0,
}


def bernoulli_kl(a, b):
    return a * math.log(a / b) + (1 - a) * math.log((1 - a) / (1 - b))


def inside(value, margin):
    return min(max(value, margin), 1 - margin)


def weight_none(rollout, o):
    return [1.0] * len(rollout["trainer"])


def weight_tis(rollout, o):
    return [min(math.exp(d), o["high"]) for d in mismatch(rollout)]


def weight_icepop(rollout, o):
    return [math.exp(d) if o["low"] <= math.exp(d) <= o["high"] else 0.0 for d in mismatch(rollout)]


def weight_geometric_mask(rollout, o):
    d = mismatch(rollout)
    kept = not d or o["low"] <= math.exp(sum(d) / len(d)) <= o["high"]
    return [float(kept)] * len(d)


def weight_mis_po(rollout, o):
    d = mismatch(rollout)
    kept = not d or o["geo_low"] <= math.exp(sum(d) / len(d)) <= o["geo_high"]
    return [float(kept and o["token_low"] <= math.exp(x) <= o["token_high"]) for x in d]


def weight_off_policy_sequence_mask(rollout, o):
    drift = (rollout["inference"] - rollout["current"].detach()).tolist()
    lost = bool(drift) and rollout["advantage"] < 0 and sum(drift) / len(drift) > o["delta"]
    return [float(not lost)] * len(drift)


def weight_kpop(rollout, o):
    weights = []
    for trainer, inference in zip(rollout["trainer"].tolist(), rollout["inference"].tolist(), strict=True):
        p, q = inside(math.exp(trainer), 1e-6), inside(math.exp(inference), 1e-6)
        kept = bernoulli_kl(p, q) <= o["phi"] and bernoulli_kl(q, p) <= o["phi"]
        weights.append(math.exp(trainer - inference) if kept else 0.0)
    return weights


def weight_trust_region_mask(rollout, o):
    d = (rollout["current"].detach() - rollout["inference"]).tolist()
    estimates = [x * x / 2 if o["estimator"] == "k2" else math.exp(x) - 1 - x for x in d]
    return [float(all(k <= o["delta"] for k in estimates))] * len(d)


def weight_minpro(rollout, o):
    ratios = [math.exp(x) for x in (rollout["current"].detach() - rollout["inference"]).tolist()]
    products = [r * min(ratios[:t], default=1.0) for t, r in enumerate(ratios)]
    return [min(max(w, 1 - o["epsilon_low"]), 1 + o["epsilon_high"]) for w in products]


def mismatch(rollout):
    return (rollout["trainer"] - rollout["inference"]).tolist()


def dppo_loss(rollout, o, divergence):
    """-A min(r, cap) with the gradient through r below the cap and its value above, on the tokens that are kept."""
    total, a = 0.0 * rollout["current"].sum(), rollout["advantage"]
    for current, inference in zip(rollout["current"], rollout["inference"], strict=True):
        p, q = math.exp(current.item()), math.exp(inference.item())
        if (a > 0 and p > q and divergence(p, q) > o["delta_high"]) or (
            a < 0 and p < q and divergence(p, q) > o["delta_low"]
        ):
            continue
        r = math.exp(current.item() - inference.item())
        total = total - a * (r if o["cap"] is None else min(r, o["cap"])) * torch.exp(current - current.detach())
    return total


def total_variation(p, q):
    return abs(p - q)


def binary_kl(p, q):
    return bernoulli_kl(inside(q, 1e-8), inside(p, 1e-8))


def token_losses(rollout, weights, o):
    """Loss of each token, and the weight 1 for the batch's divisor: ``tokens`` or ``rollouts``."""
    kind, a = o["loss_type"], rollout["advantage"]
    current, log = rollout["current"], rollout["current"] - rollout["trainer"]
    w = torch.tensor(weights, dtype=torch.float64)
    if kind == "ppo":
        return -torch.minimum(a * log.exp(), a * log.exp().clamp(1 - o["epsilon"], 1 + o["epsilon"])) * w
    if kind == "gspo":
        s = log.mean().exp()
        return -torch.minimum(a * s, a * s.clamp(1 - o["gspo_low"], 1 + o["gspo_high"])) * w
    if kind == "cispo":
        return -a * log.exp().detach().clamp(max=o["cispo_high"]) * w * current
    if kind == "sapo":
        t = o["tau_pos"] if a > 0 else o["tau_neg"]
        return -a * torch.sigmoid(t * (log.exp() - 1)) * 4 / t * w
    if kind == "vespo":
        product = sum(log.clamp(-20, 20).tolist()) + sum(math.log(max(x, 1e-8)) for x in weights)
        product = min(max(product, math.log(1e-8)), 20.0)
        k, rate = (o["k_pos"], o["lambda_pos"]) if a >= 0 else (o["k_neg"], o["lambda_neg"])
        return -a * math.exp(rate + k * product - rate * math.exp(product)) * current
    assert kind == "dro"
    return (-a * current + o["dro_beta"] / 2 * log**2) * w


def geometric_loss(rollout, weights, ratios, o):
    """Weights that are ratios count 1e-10 more; weights of 0 and 1 are 1e-10 and 1."""
    log, a = rollout["current"] - rollout["trainer"], rollout["advantage"]
    if a > 0:
        log = log.clamp(max=o["gmpo_epsilon"])
    elif a < 0:
        log = log.clamp(min=-o["gmpo_epsilon"])
    logs = [math.log(x + 1e-10) if ratios else math.log(max(x, 1e-10)) for x in weights]
    log = log + torch.tensor(logs, dtype=torch.float64)
    return -a * log.mean().exp()


WEIGHTS = {
    "none": weight_none,
    "tis": weight_tis,
    "icepop": weight_icepop,
    "geometric_mask": weight_geometric_mask,
    "mis_po": weight_mis_po,
    "off_policy_sequence_mask": weight_off_policy_sequence_mask,
    "kpop": weight_kpop,
    "trust_region_mask": weight_trust_region_mask,
}
DIVERGENCES = {"dppo_tv": total_variation, "dppo_kl": binary_kl}


def batch_loss(rollouts, name, **options):
    """Loss of the batch under a correction and a loss type: over its tokens, or the mean over its rollouts."""
    o = {"loss_type": "ppo"} | OPTIONS | options
    tokens = max(sum(len(rollout["current"]) for rollout in rollouts), 1)
    if name == "minpro":
        parts = [
            (r["advantage"], r["current"], torch.tensor(weight_minpro(r, o), dtype=torch.float64)) for r in rollouts
        ]
        return sum((-a * weights * current).sum() for a, current, weights in parts) / tokens
    if name in DIVERGENCES:
        return sum(dppo_loss(rollout, o, DIVERGENCES[name]) for rollout in rollouts) / tokens
    total = torch.zeros((), dtype=torch.float64)
    weighted = [(rollout, WEIGHTS[name](rollout, o)) for rollout in rollouts if len(rollout["current"])]
    ratios = name in ("tis", "icepop", "kpop") or o.get("level", "none") != "none"
    for rollout, weights in weighted:
        if name == "trust_region_mask" and o["loss_type"] == "vespo" and not any(weights):
            continue  # a rollout that is taken out has no part at all, where weights of 0 would leave a trace
        if o["loss_type"] == "gmpo":
            total = total + geometric_loss(rollout, weights, ratios, o) / len(rollouts)
        elif o["loss_type"] in ("gspo", "sapo"):
            total = total + token_losses(rollout, weights, o).mean() / len(rollouts)
        else:
            total = total + token_losses(rollout, weights, o).sum() / tokens
    return total
