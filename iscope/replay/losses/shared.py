"""What the loss types share: the ratio r, current over trainer, of a token or a whole rollout, and weighting."""

from __future__ import annotations

from torch import Tensor

from iscope.recipes.model import LogClamp, Loss
from iscope.replay.view import TokenView
from iscope.replay.weights import clamp_log, rollout_log_ratio, tested_ratio


def loss_ratio(view: TokenView, loss: Loss) -> tuple[Tensor, Tensor]:
    """The ratio r of each token [P], in the precision of the decisions and as float64.

    At level ``sequence`` it is exp(mean of the log-ratio over the rollout's tokens), the same for all of them (GSPO;
    TRL 1.16.0, importance_sampling_level).
    """
    if loss.level == "token":
        if loss.clamp is None:
            return view.ratio(loss.pair), view.weight(loss.pair)
        tested = tested_ratio(view, clamp_log(view.log_ratio(loss.pair), loss.clamp), loss.clamp)
        return tested, clamp_log(view.exact(loss.pair), loss.clamp).exp()
    ratio = view.segments.expand(clamp_log(_mean_log_ratio(view, loss), loss.clamp).exp())
    return ratio.to(view.trainer.dtype), ratio


def spread(view: TokenView, loss: Loss, slope: Tensor) -> Tensor:
    """Derivative of the rollout's loss by each token's current logprob [P].

    Args:
        view: the tokens, whole rollouts.
        loss: the loss, for the level of r.
        slope: float64 [P], derivative of each token's loss by log r. A ratio of the whole rollout depends on all of its
            tokens alike, so each gets the mean of the slopes, but its own alone with ``straight_through``. Beyond the
            loss's clamp there is none.
    """
    if loss.clamp is not None:
        slope = slope.masked_fill(_beyond_clamp(view, loss, loss.clamp), 0.0)
    if loss.level == "token" or loss.straight_through:
        return slope
    return view.segments.expand(view.segments.sum(slope) / _tokens(view, loss))


def _beyond_clamp(view: TokenView, loss: Loss, clamp: LogClamp) -> Tensor:
    log = view.log_ratio(loss.pair)
    if loss.level != "token":
        log = view.segments.expand(_mean_log_ratio(view, loss))
    return log != clamp_log(log, clamp)


def _mean_log_ratio(view: TokenView, loss: Loss) -> Tensor:
    if not loss.denominator.epsilon:
        return rollout_log_ratio(view, loss.pair, mean=True)
    return rollout_log_ratio(view, loss.pair, mean=False) / _tokens(view, loss)


def _tokens(view: TokenView, loss: Loss) -> Tensor:
    """What the mean log-ratio of each rollout divides by, float64 [N]."""
    return view.segments.lengths.clamp(min=1).double() + loss.denominator.epsilon


def weighted(value: Tensor, weight: Tensor) -> Tensor:
    """value * weight [P], 0 where the weight is 0, whatever the value."""
    return (value * weight).masked_fill_(weight == 0, 0.0)
