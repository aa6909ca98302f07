"""FIPO's influence of a token: how the policy moved on all that follows it, as a constant factor of its loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from iscope.recipes.model import Influence, Loss, bound_value
from iscope.replay.losses.shared import loss_ratio
from iscope.replay.view import EXPONENT_LIMIT, TokenView

# The factor of an unsafe token.
_UNSAFE_LOW, _UNSAFE_HIGH = 0.8, 1.0


def influence(view: TokenView, signal: Tensor, loss: Loss, rule: Influence) -> Tensor:
    """The factor of each token, float64 [P]: exp of its future KL, within the reach of 1.

    Source: ms-swift 4.6.0, loss_type fipo (fipo_clip_range, fipo_clip_high_only, fipo_safety_threshold), after FIPO
    (arXiv 2603.19835).

    Args:
        view: the tokens, whole rollouts.
        signal: float64 [P], A.
        loss: the loss, for its ratio r and its delta.
        rule: the influence, values only.
    """
    factor = future_kl(view, loss, rule).clamp(-EXPONENT_LIMIT, EXPONENT_LIMIT).exp()
    reach = bound_value(rule.reach)
    if reach is not None:
        factor = factor.clamp(1.0 if rule.above_one else 1.0 - reach, 1.0 + reach)
    return torch.where(unsafe(view, signal, loss, rule), factor.clamp(_UNSAFE_LOW, _UNSAFE_HIGH), factor)


def future_kl(view: TokenView, loss: Loss, rule: Influence) -> Tensor:
    """Sum of log r over the token and all later ones of its rollout, halved every half-life, float64 [P], nats.

    Source: ms-swift 4.6.0, loss_type fipo: fipo_decay_rate is the half-life; tokens whose r exceeds delta add nothing.
    """
    log, delta, half_life = view.exact(loss.pair), bound_value(loss.delta), bound_value(rule.half_life)
    assert half_life is not None
    if delta is not None:
        log = log.masked_fill(loss_ratio(view, loss)[0] > delta, 0.0)
    return _discounted(view, log, half_life)


def unsafe(view: TokenView, signal: Tensor, loss: Loss, rule: Influence) -> Tensor:
    """Bool [P], tokens with A < 0 whose ratio r exceeds the threshold."""
    threshold = bound_value(rule.threshold)
    if threshold is None:
        return torch.zeros_like(signal, dtype=torch.bool)
    return (signal < 0) & (loss_ratio(view, loss)[0] > threshold)


def _discounted(view: TokenView, values: Tensor, half_life: float) -> Tensor:
    """Discounted sum over each token and those after it: the sums of 1, 2, 4, ... tokens, each from two of the last."""
    segments, position, total = view.segments, view.position, values.clone()
    row = segments.expand(torch.arange(segments.rows, device=segments.device))
    step, longest = 1, int(segments.lengths.max()) if segments.rows else 0
    while step < longest:
        gap = (position[step:] - position[:-step]).double()
        later = total[step:] * torch.exp(gap * (-math.log(2) / half_life))
        total[:-step] += later.masked_fill_(row[step:] != row[:-step], 0.0)
        step *= 2
    return total
