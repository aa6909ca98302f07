"""Columns of what a recipe's loss does, for the metrics that frameworks log of it."""

from __future__ import annotations

import torch
from torch import Tensor

from iscope.recipes.model import BoundRecipe
from iscope.replay.aggregation import dropped_tokens
from iscope.replay.correction import correct
from iscope.replay.losses.indicators import indicators
from iscope.replay.view import TokenView

Columns = dict[str, Tensor]


def measure_loss(view: TokenView, recipe: BoundRecipe) -> Columns:
    """Sum each indicator of a recipe's loss over the tokens of each rollout [N], under ``loss.NAME``.

    Flags are counted, int64 in tokens; the others are float64. Of a loss with ``lag_logged`` over the tokens that the
    filters leave in the loss mask.
    """
    if recipe.loss.lag_logged and any(rule.drops for rule in recipe.filters):
        dropped = dropped_tokens(view, recipe, correct(view, recipe))
        view = view if dropped is None else view.only(~dropped)
    segments = view.segments
    return {
        f"loss.{name}": segments.count(values) if values.dtype is torch.bool else segments.sum(values)
        for name, values in indicators(view, recipe).items()
    }
