"""slime's corrections and losses written out plainly, one rollout and one token at a time, for torch to differentiate.

Rollouts as in ``skyrl_losses``, with ``ref`` too. Options go by slime's names; ``correction`` is none, tis, icepop or
mis.
"""

from __future__ import annotations

import math

import torch

DEFAULTS = {
    "tis_clip": 2.0,
    "tis_clip_low": 0.0,
    "tis_level": "token",
    "tis_mode": "truncate",
    "tis_lower_bound": 0.5,
    "tis_upper_bound": 2.0,
    "use_rs": True,
    "rs_level": "token",
    "rs_lower_bound": None,
    "rs_upper_bound": None,
    "rs_veto_threshold": 1e-4,
    "tis_batch_normalize": True,
    "advantage_estimator": "grpo",
    "eps_clip": 0.2,
    "eps_clip_high": None,
    "eps_clip_c": None,
    "use_opsm": False,
    "opsm_delta": 1e-4,
    "use_rollout_logprobs": False,
    "use_kl_loss": False,
    "kl_loss_coef": 0.0,
    "kl_loss_type": "k1",
    "use_unbiased_kl": False,
    "calculate_per_token_loss": False,
}


def ratios_at(d, level):
    """R of each token."""
    if level == "token":
        return [math.exp(min(max(x, -20.0), 20.0)) for x in d]
    total = sum(d) if level == "sequence" else sum(d) / max(len(d), 1)
    return [math.exp(min(max(total, -20.0), 20.0))] * len(d)


def mis(rollout, options):
    """Weight and mask of each token, before normalisation."""
    d = [float(x) for x in rollout["trainer"] - rollout["inference"]]
    upper, lower = options["tis_upper_bound"], options["tis_lower_bound"]
    lower = 1 / upper if lower is None else lower
    weights, mask = ratios_at(d, options["tis_level"]), [True] * len(d)
    if options["tis_mode"] == "mask":
        mask = [lower <= w <= upper for w in weights]
    else:
        floor = lower if options["tis_mode"] == "clip" else 0.0
        weights = [min(max(w, floor), upper) for w in weights]
    if options["use_rs"]:
        low = lower if options["rs_lower_bound"] is None else options["rs_lower_bound"]
        high = upper if options["rs_upper_bound"] is None else options["rs_upper_bound"]
        tested = ratios_at(d, options["rs_level"])
        veto = options["rs_veto_threshold"]
        lost = veto is not None and any(x < math.log(veto) for x in d)
        mask = [m and low <= r <= high and not lost for m, r in zip(mask, tested, strict=True)]
    return weights, mask


def weights_and_masks(rollouts, correction, options):
    """Of each rollout."""
    if correction == "mis":
        found = [mis(rollout, options) for rollout in rollouts]
        mean = 1.0
        if options["tis_batch_normalize"] and options["tis_level"] == "token":
            mean = sum(sum(w) for w, _ in found) / sum(len(w) for w, _ in found)
        elif options["tis_batch_normalize"]:
            mean = sum(sum(w) / max(len(w), 1) for w, _ in found) / len(found)
        return [([w / mean for w in weights], mask) for weights, mask in found]
    found = []
    for rollout in rollouts:
        ratios = [math.exp(float(x)) for x in rollout["trainer"] - rollout["inference"]]
        low, high = options["tis_clip_low"], options["tis_clip"]
        if correction == "none":
            ratios = [1.0] * len(ratios)
        elif correction == "tis":
            ratios = [min(max(r, low), high) for r in ratios]
        else:
            ratios = [r if low <= r <= high else 0.0 for r in ratios]
        found.append((ratios, [True] * len(ratios)))
    return found


def token_losses(rollout, options):
    """The uncorrected loss of each token."""
    current, a = rollout["current"], rollout["advantage"]
    old = rollout["inference"] if options["use_rollout_logprobs"] else rollout["trainer"]
    log_ratio = current - old
    if options["advantage_estimator"] == "gspo" and len(current):
        log_ratio = log_ratio.mean().expand(len(current))
    low = 1 - options["eps_clip"]
    high = 1 + (options["eps_clip"] if options["eps_clip_high"] is None else options["eps_clip_high"])
    ratio = torch.exp(log_ratio)
    if options["advantage_estimator"] == "cispo":
        loss = -ratio.clamp(low, high).detach() * a * current
    else:
        loss = torch.max(-ratio * a, -ratio.clamp(low, high) * a)
        if options["eps_clip_c"] is not None and a < 0:
            loss = torch.min(loss, torch.full_like(loss, -a * options["eps_clip_c"]))
    if (
        options["use_opsm"]
        and a < 0
        and len(current)
        and float((old - current.detach()).mean()) > options["opsm_delta"]
    ):
        loss = loss * 0.0
    return loss


def kl_terms(rollout, options):
    u = rollout["current"] - rollout["ref"]
    kind = options["kl_loss_type"]
    kl = u if kind == "k1" else u * u / 2 if kind == "k2" else torch.exp(-u) - 1 + u
    if kind == "low_var_kl":
        kl = kl.clamp(-10, 10)
    return kl * torch.exp(rollout["current"] - rollout["trainer"]) if options["use_unbiased_kl"] else kl


def batch_loss(rollouts, correction, **given):
    """The loss of one batch, a scalar."""
    options = DEFAULTS | given
    whole, tokens = torch.zeros((), dtype=torch.float64), 0
    for rollout, (weights, mask) in zip(rollouts, weights_and_masks(rollouts, correction, options), strict=True):
        loss = token_losses(rollout, options) * torch.tensor(weights, dtype=torch.float64)
        if options["use_kl_loss"]:
            loss = loss + options["kl_loss_coef"] * kl_terms(rollout, options)
        total = (loss * torch.tensor(mask, dtype=torch.float64)).sum()
        length = max(len(weights), 1)
        tokens += length
        whole = whole + (total if options["calculate_per_token_loss"] else total / length)
    return whole / (tokens if options["calculate_per_token_loss"] else len(rollouts))
