"""prime-rl's losses written out plainly on one rollout, for autograd.

``lp``, ``mu``, ``ref`` are float64 tensors of the rollout's loss tokens, ``a`` its advantage per token. The sum over
tokens, before any normalisation.
"""

from __future__ import annotations

import math

import torch


def seq_tis(lp, mu, ref, a, o):
    weight = torch.exp((lp - mu).sum()).detach().clamp(max=o["seq_clip"])
    return -(weight * o["adv_tau"] * a * lp).sum()


def geometric_keep(lp, mu, o):
    g = torch.exp((lp - mu).detach().mean()) if lp.numel() else torch.tensor(1.0)
    return o["geo_mask_low"] <= g <= o["geo_mask_high"]


def seq_mis(lp, mu, ref, a, o):
    weight = torch.exp((lp - mu).detach().sum().clamp(max=40.0))
    return -(weight * o["adv_tau"] * a * lp).sum() if geometric_keep(lp, mu, o) else 0.0 * lp.sum()


def geo_mask(lp, mu, ref, a, o):
    weight = torch.ones_like(lp)
    if o["token_clip"] is not None:
        weight = torch.exp(lp - mu).detach().clamp(max=o["token_clip"])
    return -(weight * o["adv_tau"] * a * lp).sum() if geometric_keep(lp, mu, o) else 0.0 * lp.sum()


def mis_po(lp, mu, ref, a, o):
    ratio = torch.exp(lp - mu).detach()
    keep = (ratio >= o["token_mask_low"]) & (ratio <= o["token_mask_high"]) & bool(geometric_keep(lp, mu, o))
    return -(o["adv_tau"] * a * lp)[keep].sum() + 0.0 * lp.sum()


def _capped(lp, mu, cap):
    """min(r, cap) in value; its derivative is the value, also above the cap."""
    log = lp - mu
    return torch.exp(log.detach().clamp(max=math.log(cap)) + log - log.detach())


def ipo(lp, mu, ref, a, o):
    keep = (lp.exp() - mu.exp()).abs() <= o["eps"]
    return -(o["adv_tau"] * a * _capped(lp, mu, o["max_importance_ratio"]))[keep].sum() + 0.0 * lp.sum()


def icepop(lp, mu, ref, a, o):
    ratio = torch.exp(lp - mu)
    keep = (ratio >= o["ratio_low"]) & (ratio <= o["ratio_high"])
    return -(o["adv_tau"] * a * ratio)[keep].sum() + 0.0 * lp.sum()


def ppo(lp, mu, ref, a, o):
    ratio = _capped(lp, mu, o["max_importance_ratio"])
    scaled = o["adv_tau"] * a
    return -torch.minimum(scaled * ratio, scaled * ratio.clamp(o["ratio_low"], o["ratio_high"])).sum()


def cispo(lp, mu, ref, a, o):
    low = o["ratio_low"] if o["ratio_low"] > 0 else None
    return -(torch.exp(lp - mu).detach().clamp(low, o["ratio_high"]) * o["adv_tau"] * a * lp).sum()


def ref_kl(lp, mu, ref, a, o):
    keep = lp.exp() - mu.exp() >= -0.2
    return -((ref - lp).detach() * _capped(lp, mu, 1e4))[keep].sum() + 0.0 * lp.sum()


def _penalised(policy, lp, mu, tau):
    return policy + tau * ((lp - mu) ** 2).sum()


def default_2026_08(lp, mu, ref, a, o):
    moved = lp.exp() - mu.exp()
    dropped = torch.where(a > 0, moved > o["dppo_mask_high"], moved < -o["dppo_mask_low"])
    policy = -(o["adv_tau"] * a * torch.exp(lp - mu))[~dropped].sum() + 0.0 * lp.sum()
    return _penalised(policy, lp, mu, o["kl_tau"])


def ipo_2026_08(lp, mu, ref, a, o):
    keep = (lp.exp() - mu.exp()).abs() <= o["ipo_threshold"]
    policy = -(o["adv_tau"] * a * torch.exp(lp - mu))[keep].sum() + 0.0 * lp.sum()
    return _penalised(policy, lp, mu, o["kl_tau"])


def ref_kl_2026_08(lp, mu, ref, a, o):
    keep = lp.exp() - mu.exp() >= -0.2
    policy = -((ref - lp).detach() * torch.exp(lp - mu))[keep].sum() + 0.0 * lp.sum()
    return _penalised(policy, lp, mu, 1e-3)


def none(lp, mu, ref, a, o):
    return -(o["adv_tau"] * a * lp).sum()
