"""A recipe's correction on a view: the weights and the keep-decisions, and which bound made them.

Decisions are made in the precision of the view (float32 unless asked otherwise), as trainers make them; a rollout's
sum is taken in float64 first. The weights that figures are computed from are float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from iscope.recipes.model import BoundRecipe, Reduction
from iscope.replay.filters import Rejection, reject
from iscope.replay.view import TokenView
from iscope.replay.weights import Weight, weigh


@dataclass(frozen=True)
class Correction:
    """What a recipe's weight rule and filters make of a view.

    Attributes:
        weight: the weight before any rejection.
        rejections: one entry per filter, in order.
        keep_token: bool [P], False where a token was rejected by itself; None when no filter rejects tokens.
        keep_rollout: bool [N], False where the rollout was rejected; None when no filter rejects rollouts.
    """

    weight: Weight
    rejections: tuple[Rejection, ...]
    keep_token: Tensor | None
    keep_rollout: Tensor | None

    @property
    def per_token(self) -> bool:
        """Whether weight or decisions differ within a rollout."""
        return self.weight.per_token or self.keep_token is not None

    def keep(self, view: TokenView) -> Tensor:
        """Bool [P], False where the token or its rollout was rejected."""
        if self.keep_rollout is None:
            every = torch.ones(view.segments.tokens, dtype=torch.bool, device=view.device)
            return every if self.keep_token is None else self.keep_token
        keep = view.segments.expand(self.keep_rollout)
        return keep if self.keep_token is None else keep & self.keep_token

    def token_weight(self, view: TokenView) -> Tensor:
        """Float64 [P], the weight of each token, 0 where it was rejected by itself; rejected rollouts keep theirs."""
        weight = self.weight.of_tokens(view.segments)
        return weight if self.keep_token is None else weight.masked_fill_(~self.keep_token, 0.0)

    def applied_weight(self, view: TokenView) -> Tensor:
        """Float64 [P], the weight of each token, 0 where it or its rollout was rejected."""
        weight = self.token_weight(view)
        if self.keep_rollout is None:
            return weight
        return weight.masked_fill_(~view.segments.expand(self.keep_rollout), 0.0)


def correct(view: TokenView, recipe: BoundRecipe) -> Correction:
    """Replay the weight rule and the filters of a recipe."""
    token: Tensor | None = None
    rollout: Tensor | None = None
    rejections = []
    tested: Tensor | None = None
    for rule in recipe.filters:
        rejection = reject(view, rule, _alive(view, token, rollout) if rule.sees == "survivors" else None)
        rejections.append(rejection)
        kept = ~rejection.out
        if rejection.per_token:
            token = kept if token is None else token & kept
        else:
            rollout = kept if rollout is None else rollout & kept
        if recipe.weight.sees == "survivors" and rule.reduction is Reduction.TOKEN:
            tested = _alive(view, token, rollout)
    return Correction(weigh(view, recipe.weight, tested), tuple(rejections), token, rollout)


def _alive(view: TokenView, token: Tensor | None, rollout: Tensor | None) -> Tensor | None:
    """Bool [P], what is left after the rejection of tokens and of rollouts; None when that is everything."""
    if rollout is None:
        return token
    kept = view.segments.expand(rollout)
    return kept if token is None else kept & token


def undropped_weight(view: TokenView, recipe: BoundRecipe, correction: Correction) -> Tensor:
    """Float64 [P], the weight of each token, 0 where a filter zeroes it; what else a filter rejects keeps its own."""
    weight = correction.weight.of_tokens(view.segments)
    for rule, rejection in zip(recipe.filters, correction.rejections, strict=True):
        if not (rule.drops or rule.masks_penalty or rule.of_loss):
            out = rejection.out if rejection.per_token else view.segments.expand(rejection.out)
            weight.masked_fill_(out, 0.0)
    return weight


def masked_tokens(view: TokenView, recipe: BoundRecipe, correction: Correction) -> Tensor | None:
    """Bool [P], tokens that a filter takes out of every term but not out of the denominators; None without such."""
    masked: Tensor | None = None
    for rule, rejection in zip(recipe.filters, correction.rejections, strict=True):
        if rule.masks_penalty:
            out = rejection.out if rejection.per_token else view.segments.expand(rejection.out)
            masked = out if masked is None else masked | out
    return masked
