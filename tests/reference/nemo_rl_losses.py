"""NeMo-RL's loss written out plainly, one rollout and one token at a time, for torch to differentiate.

A rollout is a dict with float64 tensors ``current`` (requires grad), ``trainer``, ``inference``, ``ref`` and floats
``advantage`` and ``reward``; all of its tokens train. Options go by NeMo-RL's names.
"""

from __future__ import annotations

import math

import torch

TINY = 1e-8
DEFAULTS = {
    "token_level_loss": True,
    "sequence_level_importance_ratios": False,
    "ratio_clip_min": 0.2,
    "ratio_clip_max": 0.2,
    "ratio_clip_c": None,
    "use_cispo": False,
    "disable_ppo_ratio": False,
    "force_on_policy_ratio": False,
    "reference_policy_kl_penalty": 0.0,
    "reference_policy_kl_type": "k3",
    "kl_input_clamp_value": 20.0,
    "kl_output_clamp_value": 10.0,
    "use_on_policy_kl_approximation": False,
    "positive_example_nll_weight": 0.0,
    "seq_logprob_error_threshold": None,
}


def _finite(x):
    return x if math.isfinite(x) else 0.0


def _exp(x):
    return _finite(math.exp(x) if x < 709.0 else math.inf)


def weights(rollout, mode, low, high, options):
    """The frozen weight of each token."""
    old = rollout["current"].detach() if options["force_on_policy_ratio"] else rollout["trainer"]
    d = [float(x) for x in old - rollout["inference"]]
    if mode == "none":
        return [1.0] * len(d)
    ratios = [_exp(x) for x in d]
    if options["sequence_level_importance_ratios"]:
        ratios = [_exp(math.fsum(d))] * len(d)
    if mode == "tis":
        return [min(max(x, low or 0.0), high) for x in ratios]
    if mode == "icepop":
        return [x if low <= x <= high else 0.0 for x in ratios]
    if mode == "seq-mask-tis":
        mean = math.fsum(_finite(x) for x in d) / max(len(d), 1)
        return ratios if low <= math.exp(mean) <= high else [0.0] * len(d)
    return ratios


def policy_losses(rollout, mode, low, high, options):
    """The policy term of each token, weighted."""
    current, a = rollout["current"], rollout["advantage"]
    found = []
    for t, w in enumerate(weights(rollout, mode, low, high, options)):
        if options["force_on_policy_ratio"]:
            r = clipped = torch.exp(current[t] - current[t].detach())
        elif options["disable_ppo_ratio"]:
            r = clipped = current[t]
        else:
            log = current - rollout["trainer"]
            r = torch.exp(log.sum() / (len(log) + TINY) if options["sequence_level_importance_ratios"] else log[t])
            clipped = torch.clamp(r, 1 - options["ratio_clip_min"], 1 + options["ratio_clip_max"])
        loss = torch.maximum(-a * r, -a * clipped)
        if options["use_cispo"]:
            loss = -a * clipped.detach() * current[t]
        if options["ratio_clip_c"] is not None and a < 0:
            loss = torch.minimum(loss, torch.tensor(-a * options["ratio_clip_c"], dtype=torch.float64))
        found.append(w * loss)
    return found


def kl_terms(rollout, options):
    """The KL term of each token."""
    current = rollout["current"]
    back = rollout["ref"] - current
    if options["kl_input_clamp_value"] is not None:
        back = back.clamp(-options["kl_input_clamp_value"], options["kl_input_clamp_value"])
    kl = {"k1": -back, "k2": back**2 / 2, "k3": torch.exp(back) - 1 - back}[options["reference_policy_kl_type"]]
    if options["kl_output_clamp_value"] is not None:
        kl = kl.clamp(-options["kl_output_clamp_value"], options["kl_output_clamp_value"])
    onto = rollout["inference"] if options["use_on_policy_kl_approximation"] else current.detach()
    return options["reference_policy_kl_penalty"] * torch.exp(current - onto) * kl


def positive_nll(rollouts, options):
    """The mean of -log pi over the tokens of rollouts with a reward above 0, 0 where there is none."""
    good = [x for rollout in rollouts if rollout["reward"] > 0 for x in rollout["current"]]
    return -options["positive_example_nll_weight"] * sum(good) / (len(good) + TINY) if good else 0.0


def in_batch(rollout, options):
    """Whether the logprob error leaves the rollout in the batch."""
    threshold = options["seq_logprob_error_threshold"]
    off = [math.exp(abs(float(x))) for x in rollout["trainer"] - rollout["inference"]]
    return threshold is None or not off or math.fsum(off) / len(off) <= threshold


def batch_loss(rollouts, mode="none", low=None, high=None, **given):
    """The loss of one batch, a scalar."""
    options = DEFAULTS | given
    rollouts = [rollout for rollout in rollouts if in_batch(rollout, options)]
    total = torch.zeros((), dtype=torch.float64)
    for rollout in rollouts:
        n = len(rollout["current"])
        if n:
            part = torch.stack(policy_losses(rollout, mode, low, high, options)).sum()
            part = part + kl_terms(rollout, options).sum()
            total = total + (part if options["token_level_loss"] else part / (n + TINY))
    tokens = sum(len(rollout["current"]) for rollout in rollouts)
    total = total / ((tokens if options["token_level_loss"] else len(rollouts)) + TINY)
    return total + positive_nll(rollouts, options) if options["positive_example_nll_weight"] else total
