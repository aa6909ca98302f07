"""What a recipe does to each token of a batch: its weight, whether it is kept, and its share of loss and gradient."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from iscope.recipes.model import BoundRecipe
from iscope.replay.aggregation import counted_rollouts, dropped_rollouts, dropped_tokens, remaining_loss_tokens
from iscope.replay.correction import correct
from iscope.replay.dump_cuts import RowCuts
from iscope.replay.losses import loss_terms
from iscope.replay.normalisation import BatchMeans, normalised
from iscope.replay.segments import Segments
from iscope.replay.usable import usable
from iscope.replay.view import scored_view
from iscope.rollouts import RolloutBatch


@dataclass(frozen=True)
class Outcome:
    """A recipe replayed on a batch of N rollouts and P tokens, of which Q are scored.

    Attributes:
        scored: bool [P], the tokens that the others speak of; None when all are.
        segments: the layout of the scored tokens.
        weight: float64 [Q], the applied weight, 0 where rejected.
        keep: bool [Q], False where a filter rejects.
        unscored: loss tokens with an unusable logprob.
        loss_tokens: int64 [N], loss tokens that the filters leave in the mask, unscored ones included.
        counted: bool [N], the rollouts that a mean over rollouts counts; None for all.
        loss: float64 [N], sum of the whole loss (policy and penalty term) before normalisation; None without what the
            loss multiplies its scores with.
        score: float64 [Q], its derivative by each token's current logprob; None like ``loss``.
    """

    scored: Tensor | None
    segments: Segments
    weight: Tensor
    keep: Tensor
    unscored: int
    loss_tokens: Tensor
    counted: Tensor | None = None
    loss: Tensor | None = None
    score: Tensor | None = None


def replay_batch(
    batch: RolloutBatch,
    recipe: BoundRecipe,
    unscored: Literal["exclude", "neutral"],
    mean_weight: Tensor | None = None,
    cuts: RowCuts | None = None,
) -> Outcome:
    """Replay a recipe on a batch that holds everything it looks at.

    Args:
        batch: the rollouts.
        recipe: the recipe.
        unscored: leave loss tokens with an unusable logprob out, or give them ratio 1.
        mean_weight: float64 [N], what batch normalisation divides the weights of each rollout by.
        cuts: where filters that look at a whole batch cut each rollout's; None where these rollouts are the batch.
    """
    found = usable(batch)
    view, scored = scored_view(batch, found, unscored)
    view.cuts = cuts or {}
    correction = correct(view, recipe)
    if mean_weight is not None:
        correction = normalised(view, correction, mean_weight)
    loss_tokens = remaining_loss_tokens(loss_tokens_of(batch), view, recipe, correction)
    outcome = Outcome(
        scored=scored,
        segments=view.segments,
        weight=correction.applied_weight(view),
        keep=correction.keep(view),
        unscored=sum(count for kinds in found.unscored.values() for count in kinds.values()),
        loss_tokens=loss_tokens,
        counted=counted_rollouts(recipe.loss, loss_tokens, dropped_rollouts(recipe, correction)),
    )
    if recipe.loss.signal == "advantage" and batch.advantage is None:
        return outcome
    terms = loss_terms(view, recipe, correction)
    loss, score = terms.loss(), terms.score()
    dropped = dropped_tokens(view, recipe, correction)
    if dropped is not None:
        loss, score = loss.masked_fill(dropped, 0.0), score.masked_fill(dropped, 0.0)
    return replace(outcome, loss=view.segments.sum(loss), score=score)


def add_weights(
    means: BatchMeans, batch: RolloutBatch, unscored: Literal["exclude", "neutral"], places: Tensor
) -> None:
    """Add the weights of a batch's rollouts to the means that they will be divided by.

    Args:
        means: the collected means.
        batch: the rollouts.
        unscored: leave loss tokens with an unusable logprob out, or give them ratio 1.
        places: int64 [N], the scope of normalisation that each belongs to.
    """
    view, _ = scored_view(batch, usable(batch), unscored)
    means.add(view, correct(view, means.recipe), places)


def loss_tokens_of(batch: RolloutBatch) -> Tensor:
    """Tokens of each rollout whose loss mask is true, int64 [N]."""
    layout = Segments(batch.offsets)
    return layout.lengths if batch.loss_mask is None else layout.count(batch.loss_mask)
