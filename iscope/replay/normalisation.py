"""Batch normalisation: the weights of a batch divided by their mean."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from iscope.recipes.model import BoundRecipe, Level, WeightRule
from iscope.replay.correction import Correction, undropped_weight
from iscope.replay.segments import Segments
from iscope.replay.view import TokenView

# A mean that does not exceed it leaves the weights as they are.
SMALLEST_MEAN = 1e-8


def mean_parts(rule: WeightRule, weight_sum: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """What each rollout adds to the sum and to the count of the batch's mean weight, float64 [N] each.

    Source: verl 0.9.1, rollout_is_batch_normalize: at level ``token`` the mean over tokens, else the mean over rollouts
    that have tokens of their own means. slime 624b824a, tis_batch_normalize: over all rollouts, an empty one at 0.

    Args:
        rule: the weight rule.
        weight_sum: float64 [N], sum of the weights over the rollout's tokens, those that a filter drops included.
        tokens: int64 [N].
    """
    if rule.level is Level.TOKEN:
        return weight_sum, tokens.double()
    counted = torch.ones_like(tokens, dtype=torch.bool) if rule.counts_empty else tokens > 0
    return weight_sum / (tokens.double() + rule.count_epsilon).clamp(min=1), counted.double()


def mean_weight(rule: WeightRule, total: Tensor, count: Tensor) -> Tensor:
    """What the weights of K batches are divided by [K]: their mean, or 1 where that is not above 1e-8."""
    if rule.level is Level.TOKEN:
        count = count + rule.count_epsilon
    mean = total / count.clamp(min=SMALLEST_MEAN)
    return torch.where(mean > SMALLEST_MEAN, mean, 1.0)


def _none() -> Tensor:
    return torch.zeros(0, dtype=torch.float64)


@dataclass
class BatchMeans:
    """Collects the mean weight of every batch of a dump; rollouts are held apart, so that their order changes no bit.

    They are held on the CPU.

    Attributes:
        recipe: the recipe, one that normalises its weights.
    """

    recipe: BoundRecipe
    _parts: list[tuple[Tensor, Tensor]] = field(default_factory=lambda: [(_none(), _none())])
    _places: list[Tensor] = field(default_factory=lambda: [_none().long()])

    def add(self, view: TokenView, correction: Correction, places: Tensor) -> None:
        """Add N rollouts.

        Args:
            view: their tokens.
            correction: the recipe on the view, before normalisation.
            places: int64 [N], the batch that each belongs to.
        """
        total = view.segments.sum(undropped_weight(view, self.recipe, correction))
        parts = mean_parts(self.recipe.weight, total, view.segments.lengths)
        self._parts.append((parts[0].cpu(), parts[1].cpu()))
        self._places.append(places)

    def means(self) -> Tensor:
        """What the weights of each batch are divided by, float64 [K]."""
        places = torch.cat(self._places).numpy()
        total, count = (torch.cat(part).numpy() for part in zip(*self._parts, strict=True))
        order = np.lexsort((total, places))
        offsets = np.zeros(int(places.max(initial=-1)) + 2, dtype=np.int64)
        np.cumsum(np.bincount(places, minlength=offsets.size - 1), out=offsets[1:])
        segments = Segments(torch.from_numpy(offsets))
        sums = (segments.sum(torch.from_numpy(values[order])) for values in (total, count))
        return mean_weight(self.recipe.weight, *sums)


def normalised(view: TokenView, correction: Correction, mean: Tensor) -> Correction:
    """Return the correction with the weights of each rollout divided by a mean [N], that of its batch.

    A weight can then exceed the bound it was cut to.
    """
    weight, shift = correction.weight, mean.log()
    if not weight.per_token:
        return replace(correction, weight=replace(weight, log=weight.log - shift))
    log = weight.log - view.segments.expand(shift)
    return replace(correction, weight=replace(weight, log=log, excess=weight.excess_of(log)))
