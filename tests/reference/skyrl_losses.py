"""SkyRL's correction and losses written out plainly, one rollout and one token at a time, for torch to differentiate.

A rollout is a dict with float64 tensors ``current`` (requires grad), ``trainer`` and ``inference`` and a float
``advantage``; all of its tokens train. Three rollouts on end answer one prompt. Options go by SkyRL's names.
"""

from __future__ import annotations

import math

import torch

DEFAULTS = {
    "tis_ratio_type": None,
    "token_tis_ratio_clip_high": 2.0,
    "sequence_tis_ratio_clip_high": 5.0,
    "sequence_mask_metric": None,
    "geo_mask_low": 0.99,
    "geo_mask_high": 1.01,
    "product_mask_low": 0.5,
    "product_mask_high": 2.0,
    "outlier_token_is_threshold_low": None,
    "outlier_token_is_threshold_high": None,
    "token_mask_is_threshold_low": None,
    "token_mask_is_threshold_high": None,
    "policy_loss_type": "regular",
    "loss_reduction": "token_mean",
    "eps_clip_low": 0.2,
    "eps_clip_high": 0.2,
    "clip_ratio_c": 3.0,
    "tau_pos": 1.0,
    "tau_neg": 1.05,
    "cispo_eps_clip_low": 1.0,
    "cispo_eps_clip_high": 4.0,
    "cispo_anchor": "old",
    "dppo_type": "binary_tv",
    "delta_low": 0.2,
    "delta_high": 0.2,
    "max_seq_len": 64,
}


def limited(x):
    return min(max(x, -20.0), 20.0)


def correction(rollout, options):
    """Weight of each token, 0 where it is rejected."""
    d = [float(x) for x in rollout["trainer"] - rollout["inference"]]
    ratios = [math.exp(limited(x)) for x in d]
    mask = [True] * len(d)
    low, high = (options[f"outlier_token_is_threshold_{side}"] for side in ("low", "high"))
    if any((low is not None and r < low) or (high is not None and r > high) for r in ratios):
        mask = [False] * len(d)
    low, high = (options[f"token_mask_is_threshold_{side}"] for side in ("low", "high"))
    if low is not None and high is not None:
        mask = [m and low <= r <= high for m, r in zip(mask, ratios, strict=True)]
    left = [x for x, m in zip(d, mask, strict=True) if m]
    weights = [1.0] * len(d)
    if options["tis_ratio_type"] == "token":
        weights = [min(r, options["token_tis_ratio_clip_high"]) for r in ratios]
    if options["tis_ratio_type"] == "sequence":
        weights = [min(math.exp(limited(sum(left))), options["sequence_tis_ratio_clip_high"])] * len(d)
    metric = options["sequence_mask_metric"]
    if metric is not None:
        total = sum(left) / max(len(left), 1) if metric == "geometric" else sum(left)
        short = "geo" if metric == "geometric" else "product"
        if not options[f"{short}_mask_low"] <= math.exp(limited(total)) <= options[f"{short}_mask_high"]:
            mask = [False] * len(d)
    return [w * m for w, m in zip(weights, mask, strict=True)]


def token_losses(rollout, options):
    """The uncorrected loss of each token."""
    current, a, kind = rollout["current"], rollout["advantage"], options["policy_loss_type"]
    old = torch.exp((current - rollout["trainer"]).clamp(-20, 20))
    engine = torch.exp((current - rollout["inference"]).clamp(-20, 20))
    low, high = 1 - options["eps_clip_low"], 1 + options["eps_clip_high"]
    if kind == "gspo" and len(current):
        mean = (current - rollout["trainer"]).mean().detach()
        old = torch.exp((current - current.detach() + mean).clamp(max=10))
    if kind in ("regular", "dual_clip", "gspo"):
        loss = torch.max(-old * a, -old.clamp(low, high) * a)
        if kind == "dual_clip" and a < 0:
            loss = torch.min(loss, torch.full_like(loss, -a * options["clip_ratio_c"]))
        return loss
    if kind == "sapo":
        tau = options["tau_pos"] if a > 0 else options["tau_neg"]
        return -a * torch.sigmoid(tau * (torch.exp(current - rollout["trainer"]) - 1)) * 4 / tau
    if kind == "cispo":
        r = old if options["cispo_anchor"] == "old" else engine
        r = r.clamp(1 - options["cispo_eps_clip_low"], 1 + options["cispo_eps_clip_high"])
        return -a * r.detach() * current
    if kind == "rollout_is":
        return -a * torch.where((low < engine) & (engine < high), engine, 0.0).detach() * current
    if kind == "cross_entropy":
        return -current
    if kind == "importance_sampling":
        return -torch.exp(current - rollout["trainer"]) * a
    kept = [
        not moved_too_far(float(p), float(q), a, options)
        for p, q in zip(current.detach(), rollout["inference"], strict=True)
    ]
    return -engine * a * torch.tensor(kept, dtype=torch.float64)


def moved_too_far(log_p, log_q, a, options):
    p, q = math.exp(log_p), math.exp(log_q)
    apart = (
        abs(p - q)
        if options["dppo_type"] == "binary_tv"
        else q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))
    )
    return (a > 0 and p > q and apart > options["delta_high"]) or (a < 0 and p < q and apart > options["delta_low"])


def batch_loss(rollouts, **given):
    """The loss of one batch, a scalar."""
    options = DEFAULTS | given
    whole = torch.zeros((), dtype=torch.float64)
    lengths = [len(rollout["current"]) for rollout in rollouts]
    prompts = [sum(lengths[first : first + 3]) for first in range(0, len(lengths), 3)]
    for row, (rollout, length) in enumerate(zip(rollouts, lengths, strict=True)):
        weights = torch.tensor(correction(rollout, options), dtype=torch.float64)
        total = (token_losses(rollout, options) * weights).sum()
        within = {"sequence_mean": length, "prompt_mean": prompts[row // 3]}.get(options["loss_reduction"], 1)
        whole = whole + total / max(within, 1)
    if options["policy_loss_type"] == "cross_entropy":
        return whole
    if options["loss_reduction"] == "prompt_mean":
        return whole / len(prompts)
    if options["loss_reduction"] == "token_mean":
        return whole / max(sum(lengths), 1)
    return (
        whole
        / len(rollouts)
        / (options["max_seq_len"] if options["loss_reduction"] == "seq_mean_token_sum_norm" else 1)
    )
