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


def _binary_kl(a, b):
    a, b = a.clamp(1e-6, 1 - 1e-6), b.clamp(1e-6, 1 - 1e-6)
    return a * (a / b).log() + (1 - a) * ((1 - a) / (1 - b)).log()


def kpop_2026_08(lp, mu, ref, a, o):
    p, q = lp.exp().detach(), mu.exp()
    dropped = (_binary_kl(p, q) > o["kpop_threshold"]) | (_binary_kl(q, p) > o["kpop_threshold"])
    policy = -(o["adv_tau"] * a * torch.exp(lp - mu))[~dropped].sum() + 0.0 * lp.sum()
    return _penalised(policy, lp, mu, o["kl_tau"])


def kimi_k15_2026_08(lp, mu, ref, a, o):
    regularizer = (lp - mu) ** 2
    if o["sequence_regularizer"]:
        regularizer = torch.ones_like(lp) * (lp - mu).sum() ** 2 / max(len(lp), 1)
    return (-o["adv_tau"] * a * lp + o["tau"] / 2 * regularizer).sum()


def default_2026_03(lp, mu, ref, a, o):
    moved = lp.exp() - mu.exp()
    dropped = (moved > o["ipo_mask_high"]) | (moved < -o["ipo_mask_low"])
    policy = -(o["adv_tau"] * a * torch.exp(lp - mu))[~dropped].sum() + 0.0 * lp.sum()
    return _penalised(policy, lp, mu, o["kl_tau"])


def token_2025_12(lp, mu, ref, a, o):
    if not lp.numel():
        return 0.0 * lp.sum()
    ratio = torch.exp(lp - mu).detach()
    geometric = math.exp(ratio.log().mean())
    if not o["geo_mask_low"] <= geometric <= o["geo_mask_high"]:
        return 0.0 * lp.sum()
    if ratio.min() < o["sequence_mask_low"] or ratio.max() > o["sequence_mask_high"]:
        return 0.0 * lp.sum()
    keep = (ratio >= o["token_mask_low"]) & (ratio <= o["token_mask_high"])
    return -(ratio * o["adv_tau"] * a * lp * keep).sum()


def token_2025_11(lp, mu, ref, a, o):
    ratio = torch.exp(lp - mu)
    keep = (ratio >= o["mask_ratio_low"]) & (ratio <= o["mask_ratio_high"])
    if lp.numel() and ratio.min() < o["sequence_mask_ratio_low"]:
        keep = torch.zeros_like(keep)
    return -(a * ratio * keep).sum() + o["kl_tau"] * (lp - mu).sum()


def grpo_2025_08(lp, mu, ref, a, o):
    return -(a * torch.exp(lp - mu).clamp(max=o["clip_ratio"])).sum()
