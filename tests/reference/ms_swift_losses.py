"""ms-swift's losses written out plainly, one rollout and one token at a time, for torch to differentiate.

Three rollouts on end are a group. A rollout is a dict with float64 tensors ``current`` (requires grad), ``trainer``,
``inference``, ``ref``, a float ``advantage`` and, where its tokens do not follow each other without a gap, their
``positions``; all of its tokens train. Options go by ms-swift's names.
"""

from __future__ import annotations

import math

import torch

DEFAULTS = {
    "loss_type": "grpo",
    "importance_sampling_level": "token",
    "epsilon": 0.2,
    "epsilon_high": None,
    "delta": None,
    "tau_pos": 1.0,
    "tau_neg": 1.05,
    "real_tau": 0.5,
    "fipo_decay_rate": 32.0,
    "fipo_clip_range": 0.2,
    "fipo_clip_high_only": True,
    "fipo_safety_threshold": 4.0,
    "off_policy_sequence_mask_delta": None,
    "beta": 0.0,
    "max_completion_length": 512,
}


def importance_weights(rollout, mode, threshold):
    """The frozen weight of each token."""
    d = [min(max(float(x), -20.0), 20.0) for x in rollout["trainer"] - rollout["inference"]]
    ratios = [math.exp(x) for x in d]
    if mode == "none":
        return [1.0] * len(d)
    if mode == "token_truncate":
        return [min(x, threshold) for x in ratios]
    if mode == "token_mask":
        return [x if x <= threshold else 0.0 for x in ratios]
    mean = math.exp(math.fsum(d) / len(d))
    if mode == "sequence_truncate":
        return [min(mean, threshold)] * len(d)
    return [x if mean <= threshold else 0.0 for x in ratios]


def log_ratios(rollout, level):
    """Log of the ratio r of each token, with its gradient."""
    own = rollout["current"] - rollout["trainer"]
    if level == "token":
        return own
    mean = own.mean()
    if level == "sequence":
        return mean.expand(len(own))
    return mean.detach() + rollout["current"] - rollout["current"].detach()


def influences(rollout, ratios, options):
    """FIPO's constant factor of each token."""
    logs = [float(x) for x in rollout["current"].detach() - rollout["trainer"]]
    places, ratios = rollout.get("positions", range(len(logs))), ratios.tolist()
    counted = [options["delta"] is None or r <= options["delta"] for r in ratios]
    found = []
    for t, r in enumerate(ratios):
        future = math.fsum(
            logs[k] * 0.5 ** ((places[k] - places[t]) / options["fipo_decay_rate"])
            for k in range(t, len(logs))
            if counted[k]
        )
        factor, reach = math.exp(future), options["fipo_clip_range"]
        if reach is not None:
            factor = min(max(factor, 1.0 if options["fipo_clip_high_only"] else 1 - reach), 1 + reach)
        limit = options["fipo_safety_threshold"]
        if limit is not None and rollout["advantage"] < 0 and r > limit:
            factor = min(max(factor, 0.8), 1.0)
        found.append(factor)
    return found


def limited_k3(rollout, t):
    """The estimate of the KL divergence to the reference at a token."""
    back = torch.clamp(rollout["ref"][t] - rollout["current"][t], -20.0, 20.0)
    return torch.clamp(torch.exp(back) - back - 1, max=10.0)


def token_losses(rollout, mode, threshold, options):
    """The loss of each token, KL term and weight included."""
    current, a, kind = rollout["current"], rollout["advantage"], options["loss_type"]
    ratios = torch.exp(log_ratios(rollout, options["importance_sampling_level"]))
    high = options["epsilon"] if options["epsilon_high"] is None else options["epsilon_high"]
    factors = influences(rollout, ratios, options) if kind == "fipo" else [1.0] * len(current)
    found = []
    for t, w in enumerate(importance_weights(rollout, mode, threshold)):
        r = ratios[t]
        if kind == "cispo":
            loss = -torch.clamp(r, max=high).detach() * a * current[t]
        elif kind == "sapo":
            tau = options["tau_pos"] if a > 0 else options["tau_neg"]
            loss = -4 / tau * torch.sigmoid(tau * (r - 1)) * a
        else:
            free = r if options["delta"] is None else torch.clamp(r, max=options["delta"])
            loss = -torch.min(free * a, torch.clamp(r, 1 - options["epsilon"], 1 + high) * a) * factors[t]
        if options["beta"]:
            loss = loss + options["beta"] * limited_k3(rollout, t)
        found.append(loss * w)
    return found


def off_policy(rollout, limit):
    """Whether off-policy sequence masking takes the rollout out of the loss mask."""
    if limit is None or not len(rollout["current"]) or rollout["advantage"] >= 0:
        return False
    return float((rollout["inference"] - rollout["current"].detach()).mean()) > limit


def real_loss(rollouts, options):
    """REAL: the mean log-ratios of either side of each group."""
    total, groups, kl, tokens = torch.zeros((), dtype=torch.float64), range(0, len(rollouts), 3), 0.0, 0
    for first in groups:
        sides = {True: [], False: []}
        for rollout in rollouts[first : first + 3]:
            gone = not len(rollout["current"]) or off_policy(rollout, options["off_policy_sequence_mask_delta"])
            score = 0.0 * rollout["current"].sum() if gone else (rollout["current"] - rollout["trainer"]).mean()
            sides[not gone and rollout["advantage"] > 0].append(score / options["real_tau"])
            if not gone:
                tokens += len(rollout["current"])
                kl = kl + sum(limited_k3(rollout, t) for t in range(len(rollout["current"])))
        if sides[True] and sides[False]:
            total = total + torch.log(1 + sum(torch.exp(score) for score in sides[False]))
            total = total + torch.log(1 + sum(torch.exp(-score) for score in sides[True]))
    return total / len(groups) + options["beta"] * kl / max(tokens, 1)


def batch_loss(rollouts, mode="none", threshold=2.0, **given):
    """The loss of one batch, a scalar; a rollout that is masked as off-policy counts on as an empty one."""
    options = DEFAULTS | given
    if options["loss_type"] == "real":
        return real_loss(rollouts, options)
    limit, kind = options["off_policy_sequence_mask_delta"], options["loss_type"]
    total, left, tokens = torch.zeros((), dtype=torch.float64), 0, 0
    for rollout in rollouts:
        n = len(rollout["current"])
        tokens += n
        if not n or off_policy(rollout, limit):
            continue
        left += n
        part = torch.stack(token_losses(rollout, mode, threshold, options)).sum()
        total = total + (part / n if kind in ("grpo", "sapo") else part)
    if kind in ("grpo", "sapo"):
        return total / len(rollouts)
    if kind == "dr_grpo":
        return total / (len(rollouts) * options["max_completion_length"])
    return total / max(left if kind == "bnpo" else tokens, 1)
