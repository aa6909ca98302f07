"""Policy terms without a hard edge: CISPO's capped score, SAPO's sigmoid gate, VESPO's gamma weight.

Arguments and results as in ``surrogates``.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from iscope.recipes.model import BySign, Loss, Pair, bound_value
from iscope.replay.losses.shared import loss_ratio, spread, weighted
from iscope.replay.segments import sigmoid
from iscope.replay.view import TokenView

# VESPO's limits of a token's log-ratio and of the log of the rollout's weight, nats, and its smallest lambda.
_LARGEST_LOG = 20.0
_SMALLEST_LOG = math.log(1e-8)
_SMALLEST_RATE = 1e-4


def cispo(view: TokenView, signal: Tensor, weight: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """-A clamp(r, low, high) w log pi, all but log pi constant: c = -A clamp(r, low, high) w.

    Source: TRL 1.16.0, loss_type cispo: no lower bound, and the upper one is epsilon_high itself.
    """
    low, high, capped = bound_value(loss.low), bound_value(loss.high), loss_ratio(view, loss)[1]
    if low is not None or high is not None:
        capped = capped.clamp(low, high)
    coefficient = weighted(-signal * capped, weight)
    return weighted(view.policy.double(), coefficient), coefficient


def sapo(view: TokenView, signal: Tensor, weight: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """-A (4 / t) s w with s = sigmoid(t (r - 1)): c = -A 4 s (1 - s) r w.

    Source: TRL 1.16.0, loss_type sapo: t is sapo_temperature_pos where A > 0, else sapo_temperature_neg.
    """
    assert loss.temperature is not None
    ratio = loss_ratio(view, loss)[1]
    temperature = _by_sign(loss.temperature, signal > 0)
    logit = temperature * (ratio - 1)
    gate = sigmoid(logit)
    policy = weighted(-signal * (4 / temperature) * gate, weight)
    slope = weighted(-signal * 4 * gate * sigmoid(-logit) * ratio, weight)
    return policy, spread(view, loss, slope)


def vespo(view: TokenView, signal: Tensor, weight: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """-A phi log pi, phi constant: c = -A phi; the weight acts through phi only.

    Source: TRL 1.16.0, loss_type vespo: phi = exp(lambda + k log v - lambda v), v the product of r and w over the
    rollout, with the logs kept in bounds; vespo_k_pos and vespo_lambda_pos where A >= 0, else the _neg ones. A token of
    weight 0 enters the product as 1e-8.
    """
    phi = vespo_phi(view, signal, weight, loss)
    coefficient = -signal * phi
    return weighted(view.policy.double(), coefficient), coefficient


def vespo_phi(view: TokenView, signal: Tensor, weight: Tensor, loss: Loss) -> Tensor:
    """The factor phi of each token, float64 [P]: one for a rollout, or one for either sign of its advantages.

    Arguments as of ``vespo``; on a part of a rollout's tokens, the weights of the others are taken to be 1.
    """
    assert loss.power is not None
    assert loss.rate is not None
    whole = view.rollouts
    total = whole.segments.sum(whole.exact(Pair.CURRENT_TRAINER).clamp(-_LARGEST_LOG, _LARGEST_LOG))
    total = total + view.segments.sum(weight.log().clamp(_SMALLEST_LOG, _LARGEST_LOG))
    log = view.segments.expand(total.clamp(_SMALLEST_LOG, _LARGEST_LOG))
    power = _by_sign(loss.power, signal >= 0)
    rate = _by_sign(loss.rate, signal >= 0).clamp(min=_SMALLEST_RATE)
    return (rate + power * log - rate * log.exp()).exp().nan_to_num(nan=0.0, posinf=0.0)


def _by_sign(number: BySign, positive: Tensor) -> Tensor:
    values = [bound_value(number.negative), bound_value(number.positive)]
    dtype = torch.float32 if number.float32 else torch.float64
    return torch.tensor(values, dtype=dtype, device=positive.device).double()[positive.long()]
