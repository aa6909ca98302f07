"""AReaL's decoupled, coupled and SAPO losses written out plainly, one rollout and one token at a time, for autograd.

A rollout is a dict of logprob tensors ``trainer``, ``inference`` and ``current`` and its ``advantage``, a number or one
for each token. Options go by AReaL's names.
"""

from __future__ import annotations

import math

import torch

DEFAULTS = {
    "level": "token",
    "action": "mask",
    "metric": "ratio",
    "agg": "mean",
    "upper": None,
    "lower": None,
    "m2_threshold": None,
    "eps_clip": 0.2,
    "eps_clip_higher": None,
    "c_clip": None,
    "importance_sampling_level": "token",
    "sapo_tau_pos": 1.0,
    "sapo_tau_neg": 1.05,
}


def m2po_mask(rollouts, threshold):
    """Which tokens stay, a list for each rollout: one after the other the largest d^2 of all goes."""
    kept = [[True] * len(rollout["trainer"]) for rollout in rollouts]
    if threshold is None:
        return kept
    left = [
        (float(x) ** 2, -i, -t)
        for i, rollout in enumerate(rollouts)
        for t, x in enumerate(rollout["trainer"] - rollout["inference"])
    ]
    while len(left) > 1 and math.fsum(size for size, _, _ in left) / len(left) >= threshold:
        worst = max(left)
        left.remove(worst)
        kept[-worst[1]][-worst[2]] = False
    return kept


def metric_of(d, metric):
    """The number that the metric makes of a log-ratio."""
    if metric == "ratio":
        return math.exp(d)
    return {"kl_k1": d, "kl_k2": d * d / 2, "kl_k3": math.exp(-d) - 1 + d}[metric]


def in_bounds(x, options):
    """Whether a number lies within the bounds, inclusive."""
    return (options["lower"] is None or x >= options["lower"]) and x <= options["upper"]


def cut(x, options):
    """A weight cut to the bounds."""
    return min(max(x, options["lower"] or 0.0), options["upper"])


def rollout_number(d, options):
    """What is tested of a rollout."""
    reduce = {"sum": sum, "mean": lambda x: sum(x) / len(x), "max": max}[options["agg"]]
    if options["metric"] == "ratio":
        return math.exp(reduce(d))
    return reduce([metric_of(x, options["metric"]) for x in d])


def sample(d, mask, options):
    """Weight and mask of each token after rejection sampling."""
    ratios = [math.exp(x) for x in d]
    left = [x for x, kept in zip(d, mask, strict=True) if kept]
    if options["upper"] is None or not left:
        return [1.0] * len(d), mask
    if options["level"] == "token":
        if options["action"] == "clamp":
            return [cut(r, options) for r in ratios], mask
        inside = [in_bounds(metric_of(x, options["metric"]), options) for x in d]
        return ratios, [kept and fine for kept, fine in zip(mask, inside, strict=True)]
    fine = in_bounds(rollout_number(left, options), options)
    if options["metric"] == "ratio":
        ratios = [math.exp(sum(left) / len(left))] * len(d)
    if options["action"] == "clamp":
        return ratios if fine else [cut(r, options) for r in ratios], mask
    return ratios, [kept and fine for kept in mask]


def advantage_at(rollout, t):
    """A of a token."""
    advantage = rollout["advantage"]
    return advantage if isinstance(advantage, float) else float(advantage[t])


def ratio_and_advantage(rollout, old, mask, options):
    """The loss's ratio and A of each token that is kept, by its place."""
    d = rollout["current"] - rollout[old]
    kept = [t for t, stays in enumerate(mask) if stays]
    if options["importance_sampling_level"] == "token":
        return {t: (torch.exp(d[t]), advantage_at(rollout, t)) for t in kept}
    if not kept:
        return {}
    ratio = torch.exp(sum(d[t] for t in kept) / len(kept))
    mean = sum(advantage_at(rollout, t) for t in kept) / len(kept)
    return dict.fromkeys(kept, (ratio, mean))


def clipped(ratio, advantage, options):
    """PPO's loss of a token, clipped and dual clipped."""
    higher = options["eps_clip"] if options["eps_clip_higher"] is None else options["eps_clip_higher"]
    loss = torch.maximum(-advantage * ratio, -advantage * ratio.clamp(1 - options["eps_clip"], 1 + higher))
    if options["c_clip"] is None:
        return loss
    return torch.minimum(loss, torch.tensor(options["c_clip"] * abs(advantage), dtype=torch.float64))


def gated(ratio, advantage, options):
    """SAPO's loss of a token."""
    tau = options["sapo_tau_pos"] if advantage > 0 else options["sapo_tau_neg"]
    return -advantage * torch.sigmoid(tau * (ratio - 1)) * 4 / tau


def batch_loss(rollouts, mode="decoupled", **given):
    """The loss of all rollouts as one micro-batch; ``mode`` is decoupled, coupled or sapo."""
    options = DEFAULTS | given
    of_token = gated if mode == "sapo" else clipped
    masks = m2po_mask(rollouts, options["m2_threshold"])
    total = torch.zeros((), dtype=torch.float64)
    for rollout, mask in zip(rollouts, masks, strict=True):
        d = [float(x) for x in rollout["trainer"] - rollout["inference"]]
        weights, kept = sample(d, mask, options) if mode == "decoupled" else ([1.0] * len(d), mask)
        old = "trainer" if mode == "decoupled" else "inference"
        for t, (ratio, advantage) in ratio_and_advantage(rollout, old, kept, options).items():
            total = total + of_token(ratio, advantage, options) * weights[t]
    return total / max(sum(map(sum, masks)), 1)
