"""Gradient columns: g = sum of abs(c_t) (1 - p_t) over a rollout's tokens, by sign of what multiplies the score."""

from __future__ import annotations

from torch import Tensor

from iscope.recipes.model import BoundRecipe, Loss, bound_value
from iscope.replay.losses import signal_of
from iscope.replay.view import TokenView

Columns = dict[str, Tensor]


def can_differentiate(view: TokenView, loss: Loss) -> bool:
    """Whether the view holds what a loss multiplies its scores with."""
    return (view.ref if loss.signal == "ref" else view.advantage) is not None


def can_replay(view: TokenView, recipe: BoundRecipe) -> bool:
    """Whether the view holds everything that a recipe looks at."""
    present = {"advantage": view.advantage, "ref_logprobs": view.ref, "current_logprobs": view.current}
    return all(present[name] is not None for name in recipe.needs)


def by_sign(view: TokenView, loss: Loss, size: Tensor, *, scale: bool = False) -> Columns:
    """Sum sizes over the tokens of each rollout whose signal is positive, and negative, float64 [N].

    Args:
        view: the tokens.
        loss: says what the signal is.
        size: float64 [P], abs(c_t) (1 - p_t), or (1 - p_t) alone with ``scale``.
        scale: multiply each rollout's sum by abs(A), the same for all its tokens.
    """
    segments = view.segments
    if loss.signal == "advantage" and not view.advantage_per_token:
        total, advantage = segments.sum(size), view.advantage
        assert advantage is not None
        if scale:
            total = total * advantage.abs() * (bound_value(loss.advantage_scale) or 0.0)
        return {
            "gradient_positive": total.masked_fill(advantage <= 0, 0.0),
            "gradient_negative": total.masked_fill(advantage >= 0, 0.0),
        }
    signal = signal_of(view, loss)
    return {
        "gradient_positive": segments.sum(size.masked_fill(signal <= 0, 0.0)),
        "gradient_negative": segments.sum(size.masked_fill(signal >= 0, 0.0)),
    }
