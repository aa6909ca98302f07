"""Loss types: the surrogate on top of a correction, and its derivative in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from iscope.recipes.model import BoundRecipe, Loss, Pair, bound_value
from iscope.replay.aggregation import dropped_tokens
from iscope.replay.correction import Correction, masked_tokens, undropped_weight
from iscope.replay.losses.contrast import contrast_terms
from iscope.replay.losses.penalties import penalty_terms
from iscope.replay.losses.shared import weighted
from iscope.replay.losses.surrogates import gated, stays_one
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
    policy, coefficient = _policy_terms(view, recipe, correction)
    penalty = recipe.loss.penalty
    if penalty is None or not bound_value(penalty.coefficient):
        return LossTerms(policy, coefficient)
    terms = penalty_terms(view, recipe.loss, penalty)
    if penalty.weighted:
        weight = correction.applied_weight(view)
        terms = weighted(terms[0], weight), weighted(terms[1], weight)
    masked = masked_tokens(view, recipe, correction)
    if masked is not None:
        terms = terms[0].masked_fill(masked, 0.0), terms[1].masked_fill(masked, 0.0)
    return LossTerms(policy, coefficient, *terms)


def terms_left(view: TokenView, recipe: BoundRecipe, correction: Correction) -> LossTerms:
    """The same, 0 where a filter takes the token out of the loss mask."""
    terms = loss_terms(view, recipe, correction)
    dropped = dropped_tokens(view, recipe, correction)
    of_penalty = dropped_tokens(view, recipe, correction, of_penalty=True)

    def left(values: Tensor, out: Tensor | None) -> Tensor:
        return values if out is None else values.masked_fill(out, 0.0)

    policy, coefficient = left(terms.policy, dropped), left(terms.coefficient, dropped)
    if terms.penalty is None or terms.penalty_coefficient is None:
        return LossTerms(policy, coefficient)
    return LossTerms(policy, coefficient, left(terms.penalty, of_penalty), left(terms.penalty_coefficient, of_penalty))


def _policy_terms(view: TokenView, recipe: BoundRecipe, correction: Correction) -> tuple[Tensor, Tensor]:
    """Where the weight does not simply multiply the loss, rejecting a rollout is not the same as weighting it by 0."""
    loss = recipe.loss
    if loss.couples_rollouts:
        dropped = dropped_tokens(view, recipe, correction)
        return contrast_terms(view, loss, recipe.filters, None if dropped is None else ~dropped)
    signal = signal_of(view, loss)
    kept = _coupled(view, recipe, correction) if loss.couples_tokens else None
    if kept is not None:
        weight, left_view = undropped_weight(view, recipe, correction), view.only(kept)
        left = gated(left_view, signal_of(left_view, loss), weight[kept], loss)
        return _among(left[0], kept), _among(left[1], kept)
    if loss.linear_in_weight or loss.floors_weight or correction.keep_rollout is None:
        return gated(view, signal, correction.applied_weight(view), loss)
    lost = ~view.segments.expand(correction.keep_rollout)
    policy, coefficient = gated(view, signal, correction.token_weight(view), loss)
    return policy.masked_fill(lost, 0.0), coefficient.masked_fill(lost, 0.0)


def _coupled(view: TokenView, recipe: BoundRecipe, correction: Correction) -> Tensor | None:
    """Bool [P], the tokens that the ratio of their rollout is taken over; None for all."""
    if recipe.loss.sees == "survivors" and recipe.filters:
        return correction.keep(view)
    dropped = dropped_tokens(view, recipe, correction)
    return None if dropped is None else ~dropped


def _among(values: Tensor, kept: Tensor) -> Tensor:
    """Values of the tokens that a mask [P] keeps, with 0 for the others [P]."""
    return values.new_zeros(kept.numel()).masked_scatter_(kept, values)


def base_coefficient(view: TokenView, base: Loss) -> Tensor:
    """Score coefficient [P] of a loss uncorrected: weight 1, everything kept.

    What the loss makes of the trainer's own ratio (current/trainer) stays: it is no correction.
    """
    if base.couples_rollouts:
        return contrast_terms(view, base)[1]
    signal = signal_of(view, base)
    if is_plain(view, base):
        return -signal
    return gated(view, signal, torch.ones_like(signal), base)[1]


def is_plain(view: TokenView, base: Loss) -> bool:
    """Whether the coefficient of an uncorrected loss is just minus its signal on this view."""
    if not base.uses_ratio:
        return True
    spreads = base.level == "sequence" and (view.advantage_per_token or base.denominator.epsilon > 0)
    return base.type == "clipped_surrogate" and base.gate is None and stays_one(view, base) and not spreads


def multiplies_signal(view: TokenView, loss: Loss) -> bool:
    """Whether the score coefficient is just minus the signal times the applied weight, token by token."""
    alone = loss.linear_in_weight and not loss.couples_tokens and not loss.couples_rollouts
    return alone and loss.gate is None and is_plain(view, loss)


def signal_of(view: TokenView, loss: Loss) -> Tensor:
    """What multiplies each token's score, float64 [P]: the scaled advantage, reference minus current logprob, or 1.

    Of a loss that sets the rollouts of a group against each other only the sign matters: 1, or -1 where A <= 0.
    """
    if loss.signal == "one":
        return torch.ones(view.segments.tokens, dtype=torch.float64, device=view.device)
    if loss.couples_rollouts:
        whole = view.rollouts
        return view.segments.expand(torch.where(whole.segments.mean(whole.token_advantage) > 0, 1.0, -1.0).double())
    signal = -view.log_ratio(Pair.CURRENT_REF).double() if loss.signal == "ref" else view.token_advantage
    if loss.pools_advantage and loss.level == "sequence" and view.advantage_per_token:
        whole = view.rollouts
        signal = view.segments.expand(whole.segments.mean(whole.token_advantage))
    scale = bound_value(loss.advantage_scale)
    return signal if scale is None or scale == 1.0 else signal * scale
