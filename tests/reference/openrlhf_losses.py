"""OpenRLHF's policy losses written out plainly, one rollout and one token at a time, for torch to differentiate.

A rollout is a dict with float64 tensors ``current`` (requires grad), ``trainer``, ``inference`` and a float
``advantage``; all of its tokens train. Options go by OpenRLHF's names, ``scheme`` by those of iscope's recipes.
"""

from __future__ import annotations

import math

import torch

DEFAULTS = {
    "policy_loss_type": "ppo",
    "clip_eps_low": 0.2,
    "clip_eps_high": 0.2,
    "dual_clip": None,
    "token_level_loss": True,
}


def _edge(p):
    return min(max(p, 1e-6), 1 - 1e-6)


def _binary_kl(q, p):
    q, p = _edge(q), _edge(p)
    return q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p))


def weights(rollout, scheme, low, high):
    """The frozen weight of each token."""
    d = [float(x) for x in rollout["trainer"] - rollout["inference"]]
    if scheme in ("none", "gspo"):
        return [1.0] * len(d)
    p, q = ([math.exp(float(x)) for x in rollout[name]] for name in ("trainer", "inference"))
    ratios = [math.exp(x) for x in d]
    if scheme == "tis":
        return [min(max(x, low), high) for x in ratios]
    if scheme == "seq-mask-tis":
        inside = low <= math.exp(math.fsum(d) / len(d)) <= high
        return [x if inside else 0.0 for x in ratios]
    statistic = {
        "icepop": ratios,
        "binary_kl": [_binary_kl(b, a) for a, b in zip(p, q, strict=True)],
        "tv": [abs(a - b) for a, b in zip(p, q, strict=True)],
    }[scheme.removeprefix("token_").removeprefix("seq_")]
    if scheme.startswith("seq_"):
        statistic = [math.fsum(statistic) / len(d)] * len(d)
    return [x if low <= s <= high else 0.0 for x, s in zip(ratios, statistic, strict=True)]


def policy_losses(rollout, scheme, low, high, options):
    """The loss of each token, weighted."""
    current, a = rollout["current"], rollout["advantage"]
    gspo = scheme == "gspo" or options["policy_loss_type"] == "gspo"
    found = []
    for t, w in enumerate(weights(rollout, scheme, low, high)):
        if gspo:
            onto = rollout["inference" if scheme == "gspo" else "trainer"]
            r = torch.exp((current - onto).mean())
        else:
            r = torch.exp((current[t] - rollout["trainer"][t]).clamp(-20.0, 20.0))
        gain = torch.minimum(r * a, torch.clamp(r, 1 - options["clip_eps_low"], 1 + options["clip_eps_high"]) * a)
        if options["dual_clip"] is not None and a < 0:
            gain = torch.maximum(gain, torch.tensor(options["dual_clip"] * a, dtype=torch.float64))
        found.append(-w * gain)
    return found


def batch_loss(rollouts, scheme="none", low=None, high=None, **given):
    """The loss of one optimizer step, a scalar; rollouts without tokens are in no count."""
    options = DEFAULTS | given
    filled = [rollout for rollout in rollouts if len(rollout["current"])]
    total = torch.zeros((), dtype=torch.float64)
    by_token = options["token_level_loss"] and scheme != "gspo" and options["policy_loss_type"] == "ppo"
    for rollout in filled:
        part = torch.stack(policy_losses(rollout, scheme, low, high, options)).sum()
        total = total + (part if by_token else part / (len(rollout["current"]) + 1e-8))
    if not filled:
        return total
    return total / (sum(len(rollout["current"]) for rollout in filled) if by_token else len(filled))
