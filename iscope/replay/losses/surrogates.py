"""The policy terms: per-token loss and score coefficient of each loss type.

Each takes the view, the signal A [P], the applied weight w [P] (0 where rejected) and the loss, and returns the loss of
each token and its derivative by the current logprob, float64 [P], before normalisation. A rejected token has neither.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from iscope.recipes.model import Loss, Pair, bound_value
from iscope.replay.view import TokenView


def surrogate(_view: TokenView, signal: Tensor, weight: Tensor, _loss: Loss) -> tuple[Tensor, Tensor]:
    """-A w with the gradient through w: c = -A w (prime-rl ipo, icepop, default)."""
    value = _product(-signal, weight)
    return value, value


def score(view: TokenView, signal: Tensor, weight: Tensor, _loss: Loss) -> tuple[Tensor, Tensor]:
    """-A w log pi with w constant: c = -A w (prime-rl seq_tis, seq_mis, geo_mask, mis_po, cispo)."""
    coefficient = _product(-signal, weight)
    return _product(coefficient, view.policy.double()), coefficient


def clipped_surrogate(view: TokenView, signal: Tensor, weight: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """-min(A r, A clamp(r, low, high)) w with r = current/trainer and w constant (PPO; TRL dapo).

    c = -A r w where the unclipped branch is taken, else 0; exactly at a bound the gradient is whole.
    """
    if view.current is None:
        value = _product(-signal, weight)
        return value, value
    policy, coefficient = _clipped(signal, view.ratio(Pair.CURRENT_TRAINER), view.weight(Pair.CURRENT_TRAINER), loss)
    return _product(policy, weight), _product(coefficient, weight)


def clipped_weight(view: TokenView, signal: Tensor, weight: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    """-min(A w, A clamp(w, low, high)) with the gradient through w (prime-rl ppo): c = -A w or 0."""
    return _clipped(signal, weight.to(view.trainer.dtype), weight, loss)


def _clipped(signal: Tensor, decided: Tensor, ratio: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    low, high = bound_value(loss.low), bound_value(loss.high)
    unclipped = -signal * ratio
    policy = torch.maximum(unclipped, -signal * ratio.clamp(low, high))
    above = torch.zeros_like(decided, dtype=torch.bool) if high is None else decided > high
    below = torch.zeros_like(decided, dtype=torch.bool) if low is None else decided < low
    inactive = ((signal > 0) & above) | ((signal < 0) & below)
    return policy, unclipped.masked_fill(inactive, 0.0)


def _product(value: Tensor, weight: Tensor) -> Tensor:
    """value * weight, 0 where either is 0."""
    return (value * weight).masked_fill_(weight == 0, 0.0)


Surrogate = Callable[[TokenView, Tensor, Tensor, Loss], tuple[Tensor, Tensor]]

SURROGATES: dict[str, Surrogate] = {
    "surrogate": surrogate,
    "score": score,
    "clipped_surrogate": clipped_surrogate,
    "clipped_weight": clipped_weight,
}
