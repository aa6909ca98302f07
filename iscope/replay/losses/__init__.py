"""Loss types: the surrogate on top of a correction, and its derivative in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from iscope.recipes.model import BoundRecipe, Loss, Pair, bound_value
from iscope.replay.correction import Correction
from iscope.replay.losses.surrogates import SURROGATES
from iscope.replay.view import TokenView


@dataclass(frozen=True)
class LossTerms:
    """A loss before normalisation; float64 [P] each.

    Attributes:
        policy: the policy term of each token.
        coefficient: its derivative by the token's current logprob, the score coefficient.
        penalty: the further term (KL); None when the loss has none.
        penalty_coefficient: its derivative.
    """

    policy: Tensor
    coefficient: Tensor
    penalty: Tensor | None = None
    penalty_coefficient: Tensor | None = None

    def loss(self) -> Tensor:
        """The whole loss of each token [P]."""
        return self.policy if self.penalty is None else self.policy + self.penalty

    def score(self) -> Tensor:
        """The whole loss's derivative [P]."""
        return self.coefficient if self.penalty_coefficient is None else self.coefficient + self.penalty_coefficient


def loss_terms(view: TokenView, recipe: BoundRecipe, correction: Correction) -> LossTerms:
    """Compute a recipe's loss on a view.

    Args:
        view: the tokens, with advantages unless the recipe's signal is the reference policy.
        recipe: the recipe.
        correction: its weights and keep-decisions on this view.
    """
    weight = correction.applied_weight(view)
    policy, coefficient = SURROGATES[recipe.loss.type](view, signal_of(view, recipe.loss), weight, recipe.loss)
    penalty = recipe.loss.penalty
    factor = 0.0 if penalty is None else bound_value(penalty.coefficient) or 0.0
    if penalty is None or not factor:
        return LossTerms(policy, coefficient)
    u = view.exact(penalty.pair)
    return LossTerms(policy, coefficient, factor * u * u, 2 * factor * u)


def base_coefficient(view: TokenView, base: Loss) -> Tensor:
    """Score coefficient [P] of a loss uncorrected: weight 1, everything kept.

    Where the loss clips the trainer's own ratio (current/trainer), that clipping stays: it is no correction.
    """
    signal = signal_of(view, base)
    if base.type != "clipped_surrogate" or view.current is None:
        return -signal
    return SURROGATES["clipped_surrogate"](view, signal, torch.ones_like(signal), base)[1]


def signal_of(view: TokenView, loss: Loss) -> Tensor:
    """What multiplies each token's score, float64 [P]: the scaled advantage, or reference minus current logprob."""
    signal = -view.log_ratio(Pair.CURRENT_REF).double() if loss.signal == "ref" else view.token_advantage
    scale = bound_value(loss.advantage_scale)
    return signal if scale is None or scale == 1.0 else signal * scale
