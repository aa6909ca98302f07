"""DPPO: the score weighted by the ratio, for tokens whose probability has not moved too far already.

Arguments and results as in ``surrogates``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from iscope.recipes.model import Loss, bound_value
from iscope.replay.losses.shared import loss_ratio, weighted
from iscope.replay.view import TokenView

# Keeps the binary KL finite where a probability is 1.
_CERTAIN = 1e-8


def dppo(view: TokenView, signal: Tensor, weight: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """-A min(r, delta) w log pi, all but log pi constant, 0 outside the trust region: c = -A min(r, delta) w.

    Source: verl 0.9.1, policy_loss.loss_mode dppo_tv and dppo_kl.
    """
    ratio, delta = loss_ratio(view, loss)[1], bound_value(loss.delta)
    ratio = ratio if delta is None else ratio.clamp(max=delta)
    coefficient = weighted(-signal * ratio, weight).masked_fill_(~within(view, signal, loss), 0.0)
    return weighted(view.policy.double(), coefficient), coefficient


def within(view: TokenView, signal: Tensor, loss: Loss) -> Tensor:
    """Bool [P], tokens whose divergence from the trainer's policy is allowed.

    ``tv``: p - p_trainer <= high where A > 0, else >= -low. ``kl``: KL(Bernoulli(p_trainer) || Bernoulli(p)), nats, <=
    high where A > 0, else <= low, or a move against the push of A.
    """
    low, high = bound_value(loss.low), bound_value(loss.high)
    assert low is not None
    assert high is not None
    new, old = view.policy.exp(), view.trainer.exp()
    positive = signal > 0
    if loss.divergence == "tv":
        move = new - old
        return torch.where(positive, move <= high, move >= -low)
    divergence = old * (view.trainer - view.policy) + (1 - old) * ((1 - old + _CERTAIN) / (1 - new + _CERTAIN)).log()
    return torch.where(positive, (divergence <= high) | (new <= old), (divergence <= low) | (new >= old))
