"""Columns of what a recipe's loss does, for the metrics that frameworks log of it."""

from __future__ import annotations

import torch
from torch import Tensor

from iscope.recipes.model import BoundRecipe, Loss, Pair
from iscope.recipes.registry import framework
from iscope.replay.aggregation import dropped_tokens
from iscope.replay.correction import correct, masked_tokens
from iscope.replay.losses.indicators import indicators
from iscope.replay.sums import SUMS
from iscope.replay.view import TokenView

# The one sum of a framework (``iscope.replay.sums``) that it takes over the tokens left.
_KL = "limited_k3"

Columns = dict[str, Tensor]


def measure_loss(view: TokenView, recipe: BoundRecipe) -> Columns:
    """Sum each indicator of a recipe's loss over the tokens of each rollout [N], under ``loss.NAME``.

    Flags are counted, int64 in tokens; the others are float64. Of a loss with ``logs.lag`` or ``logs.left``
    over the tokens that the filters leave in the loss mask; where they leave the denominators alone, ``left`` too,
    those tokens, and ``difference``, abs(d) of the engine, with its ``limited_k3`` for a framework that sums that.
    Where a filter spares the penalty, ``kl`` is over all tokens.
    """
    of_left, whole = recipe.loss.logs.lag or recipe.loss.logs.left, view
    if of_left and any(rule.drops for rule in recipe.filters):
        dropped = dropped_tokens(view, recipe, correct(view, recipe))
        view = view if dropped is None else view.only(~dropped)
    segments, found = view.segments, indicators(view, recipe)
    if recipe.loss.logs.lag and any(rule.masks_penalty for rule in recipe.filters):
        masked = masked_tokens(view, recipe, correct(view, recipe))
        assert masked is not None
        found["left"] = ~masked
        if _KL in dict(framework(recipe.framework).sums):
            found[_KL] = SUMS[_KL](view, Pair.TRAINER_INFERENCE)
        found["difference"] = view.exact(engine_pair(recipe.loss)).abs()
        found = {name: values.masked_fill(masked, 0) for name, values in found.items()}
    columns = {
        f"loss.{name}": segments.count(values) if values.dtype is torch.bool else segments.sum(values)
        for name, values in found.items()
    }
    if "kl" in found and any(rule.spares_penalty for rule in recipe.filters):
        columns["loss.kl"] = whole.segments.sum(indicators(whole, recipe)["kl"])
    return columns


def engine_pair(loss: Loss) -> Pair:
    """The policies of the engine's difference: the old policy, or the current one where the engine's is the old one."""
    return Pair.CURRENT_INFERENCE if loss.pair is Pair.CURRENT_INFERENCE else Pair.TRAINER_INFERENCE
