"""open-instruct's losses written out plainly, one rollout and one token at a time, for torch to differentiate.

A rollout is a dict with float64 tensors ``current`` (requires grad), ``trainer``, ``inference``, ``ref`` and a float
``advantage``; all of its tokens train, and it is a row of its own. Bounds that are None are off.
"""

from __future__ import annotations

import math

import torch

DEFAULTS = {
    "loss_fn": "dapo",
    "clip_lower": 0.2,
    "clip_higher": 0.272,
    "use_vllm_logprobs": False,
    "beta": 0.0,
    "kl_estimator": "2",
    "loss_denominator": None,
    "corrects": True,
    "clamp_lower": None,
    "clamp_upper": 2.0,
    "mask_lower": None,
    "mask_upper": None,
    "sequence_level": False,
    "tv_divergence": False,
}


def weights(rollout, options):
    """The frozen weight of each token."""
    d = [min(max(float(x), -10.0), 10.0) for x in rollout["trainer"] - rollout["inference"]]
    if not options["corrects"]:
        return [1.0] * len(d)
    rhos = [math.exp(x) for x in d]
    distance = math.fsum(abs(x - 1) for x in rhos) / len(d)
    if options["sequence_level"]:
        rhos = [math.exp(math.fsum(d) / len(d))] * len(d)
    low = -math.inf if options["mask_lower"] is None else options["mask_lower"]
    high = math.inf if options["mask_upper"] is None else options["mask_upper"]
    found = []
    for x, rho in zip(d, rhos, strict=True):
        if options["tv_divergence"]:
            kept = low <= distance <= high or x * rollout["advantage"] <= 0
        else:
            kept = low <= rho <= high
        cut = rho if options["clamp_lower"] is None else max(rho, options["clamp_lower"])
        cut = cut if options["clamp_upper"] is None else min(cut, options["clamp_upper"])
        found.append(cut if kept else 0.0)
    return found


def token_losses(rollout, options):
    """Policy and KL term of each token."""
    current, a = rollout["current"], rollout["advantage"]
    old = rollout["inference" if options["use_vllm_logprobs"] else "trainer"]
    found = []
    for t, w in enumerate(weights(rollout, options)):
        r = torch.exp(current[t] - old[t])
        if options["loss_fn"] == "cispo":
            loss = -torch.clamp(r.detach(), max=1 + options["clip_higher"]) * a * current[t]
        else:
            loss = torch.maximum(-a * r, -a * torch.clamp(r, 1 - options["clip_lower"], 1 + options["clip_higher"]))
        u = (current[t] - rollout["ref"][t]).clamp(-40.0, 40.0)
        kl = {"0": u, "1": u**2 / 2, "2": torch.exp(-u) - 1 + u, "3": r * u}[options["kl_estimator"]]
        found.append(w * loss + options["beta"] * kl)
    return found


def batch_loss(rollouts, **given):
    """The loss of one micro-batch, a scalar."""
    options = DEFAULTS | given
    filled = [rollout for rollout in rollouts if len(rollout["current"])]
    losses = [loss for rollout in filled for loss in token_losses(rollout, options)]
    total = torch.stack(losses).sum() if losses else torch.zeros((), dtype=torch.float64)
    return total / (options["loss_denominator"] or max(len(losses), 1))
