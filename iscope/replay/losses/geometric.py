"""GMPO: one loss per rollout, the geometric mean of its token ratios, each cut on the side that A pushes to.

Arguments and results as in ``surrogates``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from iscope.recipes.model import Loss, Pair, bound_value
from iscope.replay.view import TokenView

_PAIR = Pair.CURRENT_TRAINER
# verl adds it to a weight before it takes the log, so that a weight of 0 leaves a gradient.
_SMALLEST_WEIGHT = 1e-10


def geo_mean(view: TokenView, signal: Tensor, weight: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """-A exp(mean x + mean log(w + 1e-10)) of each rollout, shared out over its tokens alike; A is their mean.

    Source: verl 0.9.1, policy_loss.loss_mode geo_mean. The gradient runs through x, the log-ratios current/trainer cut
    to [-low, high]; a token whose x is cut has none. Weights that are only 0 and 1 are floored at 1e-10 instead.
    """
    segments = view.segments
    count = segments.lengths.double() + loss.denominator.count_epsilon
    cut, moves = _cut(view, signal, loss)
    floored = weight + _SMALLEST_WEIGHT if loss.weighted else weight.clamp(min=_SMALLEST_WEIGHT)
    log = segments.sum(cut) + segments.sum(floored.log())
    value = -segments.sum(signal) / count * (log / count).exp()
    policy = segments.expand(value / segments.lengths.clamp(min=1))
    return policy, segments.expand(value / count).masked_fill(~moves, 0.0)


def cut_flags(view: TokenView, loss: Loss) -> Tensor:
    """Bool [P], tokens whose log-ratio lies outside [-low, high], whatever the sign of A."""
    d = view.log_ratio(_PAIR)
    return d != d.clamp(*_limits(loss))


def _cut(view: TokenView, signal: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """The log-ratios x, and which of them the loss moves with: those cut on the other side stay as they are."""
    low, high = _limits(loss)
    decided, exact = view.log_ratio(_PAIR), view.exact(_PAIR)
    over, under = (signal > 0) & (decided > high), (signal < 0) & (decided < low)
    cut = torch.where(over, high, torch.where(under, low, exact)).masked_fill(signal == 0, 0.0)
    return cut, ~(over | under | (signal == 0))


def _limits(loss: Loss) -> tuple[float, float]:
    low, high = bound_value(loss.low), bound_value(loss.high)
    assert low is not None
    assert high is not None
    return -low, high
