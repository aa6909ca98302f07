"""Per-token quantities of a policy pair that single frameworks log sums of, beyond those of every report.

Each takes the view and the pair and returns float64 [P], nats, with d = numerator - denominator logprob.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from iscope.recipes.model import Pair
from iscope.replay.segments import expm1, logaddexp
from iscope.replay.view import TokenView


def reverse_k3(view: TokenView, pair: Pair) -> Tensor:
    """exp(-d) - 1 + d (NeMo-RL, policy_kl_error with reference_policy_kl_type=k3)."""
    d = view.exact(pair)
    return expm1(-d) + d


def jensen_shannon(view: TokenView, pair: Pair) -> Tensor:
    """Half of exp(x) - 1 - x each, x either policy's logprob over their mixture's (NeMo-RL, js_divergence_error)."""
    p, q = view.numerator(pair).double(), view.denominator(pair).double()
    mixture = logaddexp(p, q) - torch.log(torch.tensor(2.0, dtype=torch.float64))
    over = [p - mixture, q - mixture]
    return sum((expm1(x) - x for x in over), start=torch.zeros_like(p)) / 2


def weighted_surprise(view: TokenView, pair: Pair) -> Tensor:
    """-exp(d) times the numerator's logprob (NeMo-RL, approx_entropy)."""
    return -view.weight(pair) * view.numerator(pair).double()


def limited_ratio(view: TokenView, pair: Pair) -> Tensor:
    """exp(d), d within -20 and 20 (SkyRL, is_ratio_mean)."""
    return view.weight(pair).clamp(math.exp(-20.0), math.exp(20.0))


def limited_ratio_sq(view: TokenView, pair: Pair) -> Tensor:
    """exp(2 d), d within -20 and 20 (SkyRL, is_ratio_std)."""
    return limited_ratio(view, pair).square()


def abs_excess(view: TokenView, pair: Pair) -> Tensor:
    """abs(exp(d) - 1) (slime, tis_abs)."""
    return view.excess(pair).abs()


def inference_weighted(view: TokenView, pair: Pair) -> Tensor:
    """q d, q the denominator's probability (open-instruct, minus debug/vllm_local_reverse_kl)."""
    return view.denominator(pair).double().exp() * view.exact(pair)


def limited_k3(view: TokenView, pair: Pair) -> Tensor:
    """exp(d) - 1 - d, d within -20 and 20, at most 10 (miles, train_rollout_kl)."""
    d = view.exact(pair).clamp(-20.0, 20.0)
    return (expm1(d) - d).clamp(max=10.0)


SUMS: dict[str, Callable[[TokenView, Pair], Tensor]] = {
    "reverse_k3": reverse_k3,
    "jensen_shannon": jensen_shannon,
    "weighted_surprise": weighted_surprise,
    "inference_weighted": inference_weighted,
    "abs_excess": abs_excess,
    "limited_k3": limited_k3,
    "limited_ratio": limited_ratio,
    "limited_ratio_sq": limited_ratio_sq,
}
