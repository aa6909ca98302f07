"""A recipe replayed on a whole golden batch: its loss and gradient, in one step on one rank."""

from __future__ import annotations

import torch

from iscope.recipes.model import BoundRecipe
from iscope.replay.aggregation import Totals
from iscope.replay.groups import Groups
from iscope.replay.outcome import divided, replay_batch
from iscope.rollouts import RolloutBatch


def loss_and_gradient(batch: RolloutBatch, recipe: BoundRecipe) -> tuple[float, torch.Tensor]:
    """Loss of the whole batch, and its gradient by each loss token's current logprob [Q]."""
    outcome = replay_batch(batch, recipe, "exclude")
    one_batch = torch.zeros(len(batch), dtype=torch.int64)
    groups = Groups().numbers(batch.columns, one_batch) if recipe.loss.aggregation.by_group else None
    totals = Totals.zeros(1).add(outcome.loss_tokens, one_batch, outcome.counted, groups, outcome.rewarded)
    loss, gradient = divided(outcome, recipe, one_batch, totals, groups)
    return float(loss.sum()), gradient


def on_loss_tokens(case: dict, column: str, batch: RolloutBatch) -> list[float]:
    """A column of a case at the loss tokens; one value for a rollout stands for all of its tokens."""
    lengths = (batch.offsets[1:] - batch.offsets[:-1]).tolist()
    rows = [row if len(row) == n else row * n for row, n in zip(case[column], lengths, strict=True)]
    values = torch.tensor([x for row in rows for x in row], dtype=torch.float64)
    return values[batch.loss_mask].tolist()
