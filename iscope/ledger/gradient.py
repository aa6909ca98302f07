"""Gradient columns: g = sum of abs(c_t) (1 - p_t) over a rollout's tokens, by sign of what multiplies the score."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from iscope.recipes.model import BoundRecipe, Loss, bound_value
from iscope.replay.contrast import Contrast
from iscope.replay.losses import is_plain, signal_of
from iscope.replay.view import TokenView

Columns = dict[str, Tensor]


def can_differentiate(view: TokenView, loss: Loss) -> bool:
    """Whether the view holds what a loss multiplies its scores with."""
    if loss.couples_rollouts:
        return Contrast.of(loss) in view.cuts
    return loss.signal == "one" or (view.ref if loss.signal == "ref" else view.advantage) is not None


def can_replay(view: TokenView, recipe: BoundRecipe) -> bool:
    """Whether the view holds everything that a recipe looks at; a function looks at no token that is not scored."""
    if recipe.functions and view.repair == "trl":
        return False
    present = {"advantage": view.advantage, "ref_logprobs": view.ref, "current_logprobs": view.current}
    if recipe.loss.couples_rollouts and Contrast.of(recipe.loss, recipe.filters) not in view.cuts:
        return False
    return all(present[name] is not None for name in recipe.needs if name in present)


def is_even(view: TokenView, loss: Loss) -> bool:
    """Whether what a loss multiplies its scores with is the same on all tokens of a rollout: its one advantage."""
    return loss.signal == "advantage" and not view.advantage_per_token


def is_constant(view: TokenView, base: Loss) -> bool:
    """Whether the coefficient of an uncorrected loss is the same on all tokens of a rollout."""
    return is_even(view, base) and is_plain(view, base)


def by_sign(view: TokenView, loss: Loss, size: Tensor) -> Columns:
    """Sum abs(c_t) (1 - p_t), float64 [P], over the tokens of each rollout by the sign of the signal, float64 [N]."""
    if is_even(view, loss) and not loss.couples_rollouts:
        assert view.advantage is not None
        return _split(view.segments.sum(size), view.advantage)
    return sum_by_sign(view.segments.sum, size, signal_of(view, loss))


def sum_by_sign(total: Callable[[Tensor], Tensor], size: Tensor, signal: Tensor) -> Columns:
    """Sum sizes over the tokens whose signal is positive, and negative, float64 [P] each, with ``total`` to [N]."""
    return {
        "gradient_positive": total(size.masked_fill(signal <= 0, 0.0)),
        "gradient_negative": total(size.masked_fill(signal >= 0, 0.0)),
    }


def total_by_sign(view: TokenView, loss: Loss, total: Tensor) -> Columns:
    """The gradient of a loss whose signal is one advantage per rollout, from 1 - p summed over each, float64 [N]."""
    assert view.advantage is not None
    size = total * view.advantage.abs() * (bound_value(loss.advantage_scale) or 0.0)
    return _split(size, view.advantage)


def _split(total: Tensor, advantage: Tensor) -> Columns:
    return {
        "gradient_positive": total.masked_fill(advantage <= 0, 0.0),
        "gradient_negative": total.masked_fill(advantage >= 0, 0.0),
    }
