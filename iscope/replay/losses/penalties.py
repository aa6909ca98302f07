"""The term beside the policy term: an estimate of a KL divergence from a pair's log-ratio u, and its derivative."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from iscope.recipes.model import Loss, Pair, Penalty, bound_value
from iscope.replay.losses.shared import loss_ratio, spread
from iscope.replay.view import TokenView


@dataclass(frozen=True)
class _Estimator:
    """f(u), f'(u), and f(u) + f'(u): the slope of exp(u) f(u) over exp(u), without its cancellation."""

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]
    value_and_slope: Callable[[Tensor], Tensor]


_ESTIMATORS = {
    "squared": _Estimator(lambda u: u * u, lambda u: 2 * u, lambda u: u * (u + 2)),
    "k1": _Estimator(lambda u: u, torch.ones_like, lambda u: u + 1),
    "abs": _Estimator(torch.abs, torch.sign, lambda u: u.abs() + u.sign()),
    "k2": _Estimator(lambda u: u * u / 2, lambda u: u, lambda u: u * (u / 2 + 1)),
    "k3": _Estimator(lambda u: (-u).expm1() + u, lambda u: -(-u).expm1(), lambda u: u),
}


def penalty_terms(view: TokenView, loss: Loss, penalty: Penalty) -> tuple[Tensor, Tensor]:
    """Compute coefficient * f(u), or coefficient * r f(u), and the derivative by the current logprob, float64 [P].

    Source: k3 as in TRL 1.16.0 (beta; with r, use_bias_correction_kl, after DeepSeek-V3.2); squared as in prime-rl
    (kl_tau); k1, k2 and k3 with clamps and a factor of their own as in NeMo-RL (reference_policy_kl_type,
    kl_input_clamp_value, kl_output_clamp_value, use_on_policy_kl_approximation); abs and the slope of k2 as in verl
    0.9.1 (kl_loss_type). No importance weight multiplies it and no filter takes it away.

    Args:
        view: the tokens, with the reference's logprobs where the pair asks for them.
        loss: the loss, for its ratio r.
        penalty: the term, values only.
    """
    factor = bound_value(penalty.coefficient) or 0.0
    if penalty.of_sum:
        value, slope = _of_sum(view, penalty)
        return factor * value, factor * slope
    if penalty.weight is not None or penalty.input_clamp is not None or penalty.output_clamp is not None:
        value, slope = _clamped(view, penalty)
        return factor * value, factor * (view.exact(penalty.pair) if penalty.k2_slope else slope)
    estimator, u = _ESTIMATORS[penalty.kind], view.exact(penalty.pair)
    value = factor * estimator.value(u)
    if not penalty.ratio_factor:
        return value, factor * (u if penalty.k2_slope else estimator.slope(u))
    ratio = loss_ratio(view, loss)[1]
    if loss.level == "token":
        return value * ratio, factor * estimator.value_and_slope(u) * ratio
    value = value * ratio
    return value, factor * estimator.slope(u) * ratio + spread(view, loss, value)


def _of_sum(view: TokenView, penalty: Penalty) -> tuple[Tensor, Tensor]:
    """f(S) / T of each token, S the sum and T the number of its rollout's tokens, and f'(S); float64 [P].

    Source: prime-rl 07a20499a, loss type kimi_k15, sequence_regularizer. S depends on all T tokens alike, and all T
    shares of f(S) on S: the derivative by each token's logprob is f'(S) whole.
    """
    estimator, whole = _ESTIMATORS[penalty.kind], view.rollouts
    total = whole.segments.sum(whole.exact(penalty.pair))
    share = estimator.value(total) / whole.segments.lengths.clamp(min=1)
    return view.segments.expand(share), view.segments.expand(estimator.slope(total))


def _clamped(view: TokenView, penalty: Penalty) -> tuple[Tensor, Tensor]:
    """f(u) within the penalty's clamps, and its slope, times the penalty's own factor; float64 [P]."""
    estimator, u = _ESTIMATORS[penalty.kind], view.exact(penalty.pair)
    limit, largest = bound_value(penalty.input_clamp), bound_value(penalty.output_clamp)
    if limit is not None:
        u = u.clamp(-limit, limit)
    value, slope = estimator.value(u), estimator.slope(u)
    if limit is not None:
        slope = slope.masked_fill(view.exact(penalty.pair).abs() > limit, 0.0)
    if largest is not None:
        slope = slope.masked_fill(value.abs() > largest, 0.0)
        value = value.clamp(-largest, largest)
    if penalty.weight is None:
        return value, slope
    slope = slope + value
    if isinstance(penalty.weight, Pair):
        ratio = view.weight(penalty.weight).masked_fill(~view.ratio(penalty.weight).isfinite(), 0.0)
        value, slope = value * ratio, slope * ratio
    return value, slope
