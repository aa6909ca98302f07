"""The policy term of a loss that sets the rollouts of a group against each other."""

from __future__ import annotations

import torch
from torch import Tensor

from iscope.recipes.model import Filter, Loss
from iscope.replay.contrast import Contrast, Shares
from iscope.replay.view import TokenView


def contrast_terms(
    view: TokenView, loss: Loss, filters: tuple[Filter, ...] = (), kept: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Value and derivative of each token, float64 [P]: its rollout's share and slope over the rollout's tokens.

    The gradient runs through the mean log-ratio of the rollout, whose shares in the loss of its group stand in the
    view's ``cuts``; no weight has a part in it (ms-swift 4.6.0, loss_type real).

    Args:
        view: the tokens of whole rollouts.
        loss: the loss.
        filters: those of the recipe; of the loss uncorrected none.
        kept: bool [P], the tokens that these leave in the loss mask; None for all.
    """
    shares = view.cuts[Contrast.of(loss, filters)]
    assert isinstance(shares, Shares)
    segments = view.segments
    tokens = (segments.lengths if kept is None else segments.count(kept)).clamp(min=1)
    found = (segments.expand(values / tokens) for values in (shares.value, shares.slope))
    value, slope = (values if kept is None else torch.where(kept, values, 0.0) for values in found)
    return value, slope
