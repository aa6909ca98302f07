"""Losses written out plainly, one rollout and one token at a time, for torch to differentiate.

A rollout is a dict with float64 tensors ``current`` (requires grad), ``trainer``, ``inference``, ``ref`` and a float
``advantage``; all of its tokens train. Options go by TRL's names.
"""

from __future__ import annotations

import math

import torch

DEFAULTS = {
    "epsilon": 0.2,
    "epsilon_high": None,
    "delta": None,
    "sapo_temperature_pos": 1.0,
    "sapo_temperature_neg": 1.05,
    "vespo_k_pos": 2.0,
    "vespo_lambda_pos": 3.0,
    "vespo_k_neg": 3.0,
    "vespo_lambda_neg": 2.0,
    "off_policy_mask_threshold": None,
    "beta": 0.0,
    "use_bias_correction_kl": True,
    "max_completion_length": 512,
}


def engine_weights(rollout, mode, low, high):
    """The frozen weight of each token."""
    d = rollout["trainer"] - rollout["inference"]
    if mode == "none":
        return [1.0] * len(d)
    ratios = [math.exp(x) for x in d] if mode.startswith("token") else [math.exp(float(d.sum()))] * len(d)
    low, high = (-math.inf if low is None else low), (math.inf if high is None else high)
    if mode.endswith("truncate"):
        return [min(max(x, low), high) for x in ratios]
    return [x if low <= x <= high else 0.0 for x in ratios]


def rollout_kept(rollout, threshold):
    """Off-policy sequence masking."""
    if threshold is None or rollout["advantage"] >= 0 or not len(rollout["current"]):
        return 1.0
    drift = rollout["inference"] - rollout["current"].detach()
    return 1.0 if float(drift.mean()) <= threshold else 0.0


def policy_losses(rollout, loss_type, level, weights, options):
    """The policy term of each token."""
    current, a = rollout["current"], rollout["advantage"]
    log_ratio = current - rollout["trainer"]
    if level == "sequence":
        log_ratio = log_ratio.mean().expand(len(current))
    high = options["epsilon"] if options["epsilon_high"] is None else options["epsilon_high"]
    phi = _phi(rollout, weights, options) if loss_type == "vespo" else None
    losses = []
    for t, w in enumerate(weights):
        r = torch.exp(log_ratio[t])
        if loss_type == "cispo":
            loss = -torch.clamp(r, max=high).detach() * a * current[t] * w
        elif loss_type == "sapo":
            tau = float(torch.tensor(options["sapo_temperature_pos" if a > 0 else "sapo_temperature_neg"]))
            loss = -4 / tau * torch.sigmoid(tau * (r - 1)) * a * w
        elif loss_type == "vespo":
            loss = -phi * a * current[t]
        else:
            free = r if options["delta"] is None else torch.clamp(r, max=options["delta"])
            loss = -torch.min(free * a, torch.clamp(r, 1 - options["epsilon"], 1 + high) * a) * w
        losses.append(loss)
    return losses


def _phi(rollout, weights, options):
    drift = (rollout["current"].detach() - rollout["trainer"]).clamp(-20, 20)
    smallest = math.log(1e-8)
    logs = [min(max(math.log(w), smallest), 20.0) if w else smallest for w in weights]
    log = min(max(float(drift.sum()) + math.fsum(logs), smallest), 20.0)
    sign = "pos" if rollout["advantage"] >= 0 else "neg"
    return math.exp(options[f"vespo_lambda_{sign}"] * (1 - math.exp(log)) + options[f"vespo_k_{sign}"] * log)


def kl_terms(rollout, level, options):
    """The KL term of each token."""
    current = rollout["current"]
    back = rollout["ref"] - current
    k3 = torch.exp(back) - back - 1
    if options["use_bias_correction_kl"]:
        log_ratio = current - rollout["trainer"]
        k3 = k3 * torch.exp(log_ratio.mean() if level == "sequence" else log_ratio)
    return options["beta"] * k3


def batch_loss(rollouts, loss_type="dapo", level="token", mode="none", low=None, high=3.0, **given):
    """The loss of one batch, a scalar."""
    options = DEFAULTS | given
    sums, lengths = [], []
    for rollout in rollouts:
        lengths.append(len(rollout["current"]))
        if not lengths[-1]:
            continue
        weights = engine_weights(rollout, mode, low, high)
        kept = rollout_kept(rollout, options["off_policy_mask_threshold"])
        total = torch.stack(policy_losses(rollout, loss_type, level, weights, options)).sum() * kept
        if options["beta"]:
            total = total + kl_terms(rollout, level, options).sum()
        sums.append(total / lengths[-1] if loss_type in ("grpo", "sapo") else total)
    whole = torch.stack(sums).sum() if sums else torch.zeros((), dtype=torch.float64)
    if loss_type in ("grpo", "sapo", "luspo"):
        return whole / len(rollouts)
    if loss_type == "dr_grpo":
        return whole / (len(rollouts) * options["max_completion_length"])
    return whole / max(sum(lengths), 1)
