"""Aggregation: what the per-token losses of a batch are divided by to become one number."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from iscope.recipes.model import Aggregation, BoundRecipe, Loss, bound_value
from iscope.replay.correction import Correction
from iscope.replay.view import TokenView


def _no_counts() -> Tensor:
    return torch.zeros(0, dtype=torch.int64)


@dataclass(frozen=True)
class Totals:
    """What K batches and their G groups hold.

    Attributes:
        loss_tokens: int64 [K], tokens whose loss mask is true, unscored ones included.
        rollouts: int64 [K], those that a mean over rollouts counts; empty ones included unless the loss says otherwise.
        group_tokens: int64 [G], loss tokens of each group; empty where no loss asks for groups.
        group_batch: int64 [G], the batch that each group belongs to; -1 for one that no mean over groups counts.
        rewarded_tokens: int64 [K], loss tokens of rollouts whose reward is above 0; 0 where no loss asks for them.
    """

    loss_tokens: Tensor
    rollouts: Tensor
    group_tokens: Tensor = field(default_factory=_no_counts)
    group_batch: Tensor = field(default_factory=_no_counts)
    rewarded_tokens: Tensor = field(default_factory=_no_counts)

    @classmethod
    def zeros(cls, batches: int) -> Totals:
        """Return the totals of K batches that nothing was added to."""
        return cls(torch.zeros(batches, dtype=torch.int64), torch.zeros(batches, dtype=torch.int64))

    @property
    def groups(self) -> Tensor:
        """Groups of each batch, int64 [K]."""
        return torch.bincount(self.group_batch[self.group_batch >= 0], minlength=self.rollouts.numel())

    def add(
        self,
        loss_tokens: Tensor,
        batch: Tensor,
        counted: Tensor | None = None,
        groups: Tensor | None = None,
        rewarded: Tensor | None = None,
    ) -> Totals:
        """Return the totals with N rollouts more.

        Args:
            loss_tokens: int64 [N], of each rollout.
            batch: int64 [N], the batch it belongs to; a number from K on is a batch that comes new.
            counted: bool [N], the rollouts that a mean over rollouts counts, and their groups one over groups; None for
                all.
            groups: int64 [N], the group of each, a number of its own in every batch (``iscope.replay.groups``); None
                where the loss asks for none.
            rewarded: bool [N], the rollouts whose reward is above 0; None where the loss does not ask for them.
        """
        size = max(self.rollouts.numel(), int(batch.max()) + 1 if batch.numel() else 0)
        tokens, rollouts = _grown(self.loss_tokens, size), _grown(self.rollouts, size)
        tokens.index_add_(0, batch, loss_tokens)
        rollouts.index_add_(0, batch, torch.ones_like(batch) if counted is None else counted.long())
        good = _grown(self.rewarded_tokens, size)
        if rewarded is not None:
            good.index_add_(0, batch, loss_tokens.masked_fill(~rewarded, 0))
        if groups is None:
            return Totals(tokens, rollouts, self.group_tokens, self.group_batch, good)
        size = max(self.group_tokens.numel(), int(groups.max()) + 1 if groups.numel() else 0)
        group_tokens, group_batch = _grown(self.group_tokens, size), _grown(self.group_batch, size, -1)
        group_tokens.index_add_(0, groups, loss_tokens)
        among = slice(None) if counted is None else counted
        group_batch[groups[among]] = batch[among]
        return Totals(tokens, rollouts, group_tokens, group_batch, good)


def _grown(counts: Tensor, size: int, fill: int = 0) -> Tensor:
    """A copy of counts, with the filling up to this size."""
    return torch.cat([counts, torch.full((size - counts.numel(),), fill, dtype=torch.int64)])


def counted_tokens(loss: Loss, loss_tokens: Tensor) -> Tensor:
    """What rollouts add to the loss tokens of their batch, int64 [N]; slime (624b824a) counts an empty one as 1."""
    return loss_tokens.clamp(min=1) if loss.denominator.fills_empty else loss_tokens


def divisors(loss: Loss, loss_tokens: Tensor, batch: Tensor, totals: Totals, groups: Tensor | None = None) -> Tensor:
    """What each rollout's sum of per-token losses is divided by, float64 [N]; the batch's loss is the sum of these.

    token-mean: the loss tokens of the batch, at least 1 (verl loss_agg_mode=token-mean; TRL 1.16.0 loss_type=dapo;
    prime-rl's N_rl). seq-mean-token-sum: the rollouts of the batch (verl loss_agg_mode=seq-mean-token-sum).
    seq-mean-token-mean: the rollouts of the batch times the loss tokens of the rollout, at least 1 (verl
    loss_agg_mode=seq-mean-token-mean; TRL 1.16.0 loss_type=grpo). seq-mean-token-sum-norm: the rollouts of the batch
    times a constant length (verl loss_agg_mode=seq-mean-token-sum-norm; TRL 1.16.0 loss_type=dr_grpo,
    max_completion_length). token-sum: 1. group-mean-token-mean: the groups of the batch times the loss tokens of the
    rollout's group, at least 1 (SkyRL a9564572 loss_reduction=prompt_mean). group-mean-token-sum: the groups of the
    batch (ms-swift 4.6.0 loss_type=real).

    Args:
        loss: the loss that is aggregated.
        loss_tokens: int64 [N], loss tokens of each rollout.
        batch: int64 [N], the batch it belongs to.
        totals: what those batches hold.
        groups: int64 [N], the group of each rollout, where the aggregation goes by groups.
    """
    if loss.aggregation.by_group:
        return _group_divisors(loss.aggregation, batch, totals, groups)
    if loss.aggregation is Aggregation.TOKEN_MEAN:
        tokens = totals.loss_tokens[batch].clamp(min=1).double() + loss.denominator.epsilon
        constant = bound_value(loss.denominator.batch_tokens)
        return tokens if constant is None else torch.full_like(tokens, constant)
    if loss.aggregation is Aggregation.TOKEN_SUM:
        return torch.ones_like(loss_tokens, dtype=torch.float64)
    size = bound_value(loss.denominator.batch_size)
    rollouts = totals.rollouts[batch].clamp(min=1).double() + loss.denominator.epsilon
    if size is not None:
        rollouts = torch.full_like(rollouts, size)
    if loss.aggregation is Aggregation.SEQ_MEAN_TOKEN_SUM:
        return rollouts
    if loss.aggregation is Aggregation.SEQ_MEAN_TOKEN_MEAN:
        return rollouts * (loss_tokens.clamp(min=1).double() + loss.denominator.count_epsilon)
    if loss.aggregation is Aggregation.SEQ_MEAN_TOKEN_SUM_NORM:
        length = bound_value(loss.denominator.norm_length)
        assert length is not None, "seq-mean-token-sum-norm needs a length"
        return rollouts * length
    raise AssertionError(loss.aggregation)


def _group_divisors(aggregation: Aggregation, batch: Tensor, totals: Totals, groups: Tensor | None) -> Tensor:
    assert groups is not None, f"{aggregation} needs groups"
    count = totals.groups[batch].clamp(min=1).double()
    if aggregation is Aggregation.GROUP_MEAN_TOKEN_SUM:
        return count
    return count * totals.group_tokens[groups].clamp(min=1).double()


def dropped_tokens(
    view: TokenView, recipe: BoundRecipe, correction: Correction, *, of_penalty: bool = False
) -> Tensor | None:
    """Bool [P], tokens that a filter takes out of the loss mask itself; None when no filter of the recipe does.

    With ``of_penalty`` those alone that lose their penalty term as well.
    """
    dropped: Tensor | None = None
    for rule, rejection in zip(recipe.filters, correction.rejections, strict=True):
        if rule.drops and not (of_penalty and rule.spares_penalty):
            out = rejection.out if rejection.per_token else view.segments.expand(rejection.out)
            dropped = out if dropped is None else dropped | out
    return dropped


def remaining_loss_tokens(loss_tokens: Tensor, view: TokenView, recipe: BoundRecipe, correction: Correction) -> Tensor:
    """Loss tokens of each rollout that the filters leave in the mask, int64 [N].

    A rollout that is dropped as a whole takes its unscored loss tokens with it and counts on as an empty one.
    """
    dropped = dropped_tokens(view, recipe, correction)
    if dropped is None:
        return loss_tokens
    left = loss_tokens - view.segments.count(dropped)
    gone = dropped_rollouts(recipe, correction)
    return left if gone is None else left.masked_fill(gone, 0)


def dropped_rollouts(recipe: BoundRecipe, correction: Correction) -> Tensor | None:
    """Bool [N], rollouts that a filter drops as a whole; None when no filter of the recipe does."""
    gone: Tensor | None = None
    for rule, rejection in zip(recipe.filters, correction.rejections, strict=True):
        if rule.drops and not rejection.per_token:
            gone = rejection.out if gone is None else gone | rejection.out
    return gone


def counted_rollouts(loss: Loss, loss_tokens: Tensor, dropped: Tensor | None) -> Tensor | None:
    """Bool [N], the rollouts that a mean over rollouts counts; None for all.

    OpenRLHF 0.11.2 leaves out those without loss tokens (global_batch_size of get_loss_batch_info), NeMo-RL those whose
    sample_mask is 0 (global_valid_seqs).

    Args:
        loss: the loss.
        loss_tokens: int64 [N], loss tokens that the filters leave in each rollout.
        dropped: bool [N], rollouts that a filter drops as a whole; None for none.
    """
    if loss.denominator.counts == "filled":
        return loss_tokens > 0
    return ~dropped if loss.denominator.counts == "undropped" and dropped is not None else None
