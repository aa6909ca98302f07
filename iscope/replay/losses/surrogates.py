"""The policy terms: per-token loss and score coefficient of each loss type.

Each takes the view, the signal A [P], the applied weight w [P] (0 where rejected) and the loss, and returns the loss of
each token and its derivative by the current logprob, float64 [P], before normalisation. A rejected token has neither.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from iscope.recipes.model import Loss, Pair, bound_value
from iscope.replay import own
from iscope.replay.filters import reject
from iscope.replay.losses.divergence import dppo
from iscope.replay.losses.geometric import geo_mean
from iscope.replay.losses.influence import influence
from iscope.replay.losses.shared import loss_ratio, spread, weighted
from iscope.replay.losses.soft import cispo, sapo, vespo
from iscope.replay.view import TokenView


def surrogate(_view: TokenView, signal: Tensor, weight: Tensor, _loss: Loss) -> tuple[Tensor, Tensor]:
    """-A w with the gradient through w: c = -A w (prime-rl ipo, icepop, default)."""
    value = weighted(-signal, weight)
    return value, value


def score(view: TokenView, signal: Tensor, weight: Tensor, _loss: Loss) -> tuple[Tensor, Tensor]:
    """-A w log pi with w constant: c = -A w (prime-rl seq_tis, seq_mis, geo_mask, mis_po, cispo)."""
    coefficient = weighted(-signal, weight)
    return weighted(view.policy.double(), coefficient), coefficient


def clipped_surrogate(view: TokenView, signal: Tensor, weight: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """-min(A min(r, delta), A clamp(r, low, high)) w with r = current/trainer and w constant.

    Source: PPO; TRL 1.16.0, loss_type grpo, bnpo, dr_grpo, dapo and luspo. c = -A r w where the value moves with r,
    else 0; exactly at a bound the gradient is whole.
    """
    if stays_one(view, loss):
        policy = slope = weighted(-signal, weight)
    else:
        policy, slope = (weighted(value, weight) for value in _clipped(signal, *loss_ratio(view, loss), loss))
    return policy, spread(view, loss, slope)


def clipped_weight(view: TokenView, signal: Tensor, weight: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """-min(A w, A clamp(w, low, high)) with the gradient through w (prime-rl ppo): c = -A w or 0.

    At level ``sequence`` w is one for the rollout and c the mean over it (OpenRLHF 0.11.2, policy_loss_type=gspo with a
    correction).
    """
    policy, slope = _clipped(signal, weight.to(view.trainer.dtype), weight, loss)
    return policy, spread(view, loss, slope)


def _clipped(signal: Tensor, decided: Tensor, ratio: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """Value and slope; ``decided`` is the ratio that is compared with the bounds, in the precision of the decisions."""
    low, high, delta = bound_value(loss.low), bound_value(loss.high), bound_value(loss.delta)
    unclipped = -signal * ratio
    free = unclipped if delta is None else -signal * ratio.clamp(max=delta)
    policy = free if low is None and high is None else torch.maximum(free, -signal * ratio.clamp(low, high))
    above = torch.zeros_like(decided, dtype=torch.bool) if high is None else decided > high
    below = torch.zeros_like(decided, dtype=torch.bool) if low is None else decided < low
    if delta is not None:
        beyond = decided > delta
        held = beyond if low is None and high is None else above & beyond
        above, below = above | beyond, below | held
    inactive = ((signal > 0) & above) | ((signal < 0) & below)
    dual = bound_value(loss.dual)
    if dual is not None:
        capped = (signal < 0) & dual_clipped(decided, loss)
        policy, inactive = torch.where(capped, -signal * dual, policy), inactive | capped
    return policy, unclipped.masked_fill(inactive, 0.0)


def dual_clipped(decided: Tensor, loss: Loss) -> Tensor:
    """Whether the larger of a ratio [P] and its clipped value exceeds the dual clip, which acts where A < 0."""
    delta = bound_value(loss.delta)
    low, high = bound_value(loss.low), bound_value(loss.high)
    clipped = decided if low is None and high is None else decided.clamp(low, high)
    free = decided if delta is None else decided.clamp(max=delta)
    return torch.maximum(free, clipped) > (bound_value(loss.dual) or 0.0)


def stays_one(view: TokenView, loss: Loss) -> bool:
    """Whether the ratio of the clipped surrogate is 1 on all of a view, and 1 lies within every bound."""
    if view.current is not None or loss.pair is not Pair.CURRENT_TRAINER:
        return False
    low, high, delta = bound_value(loss.low), bound_value(loss.high), bound_value(loss.delta)
    dual = bound_value(loss.dual)
    above = all(bound is None or bound >= 1 for bound in (high, delta, dual))
    return (low is None or low <= 1) and above


def of_function(view: TokenView, signal: Tensor, weight: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """What a function of the user's gives; a rejected token has neither loss nor gradient of its own."""
    assert loss.function is not None
    return own.loss(view, signal, weight, loss.function)


Surrogate = Callable[[TokenView, Tensor, Tensor, Loss], tuple[Tensor, Tensor]]

SURROGATES: dict[str, Surrogate] = {
    "surrogate": surrogate,
    "score": score,
    "clipped_surrogate": clipped_surrogate,
    "clipped_weight": clipped_weight,
    "cispo": cispo,
    "sapo": sapo,
    "vespo": vespo,
    "dppo": dppo,
    "geo_mean": geo_mean,
    "function": of_function,
}


def gated(view: TokenView, signal: Tensor, weight: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """The policy term and coefficient of a loss, its own condition and the influence of later tokens included."""
    if loss.gate is not None:
        weight = weight.masked_fill(reject(view, loss.gate).out, 0.0)
    if loss.influence is not None:
        weight = weighted(influence(view, signal, loss, loss.influence), weight)
    return SURROGATES[loss.type](view, signal, weight, loss)
