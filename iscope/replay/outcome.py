"""What a recipe does to each token of a batch: its weight, whether it is kept, and its share of loss and gradient."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from torch import Tensor

from iscope.recipes.model import BoundRecipe, Loss
from iscope.replay.aggregation import (
    Totals,
    counted_rollouts,
    divisors,
    dropped_rollouts,
    dropped_tokens,
    remaining_loss_tokens,
)
from iscope.replay.correction import correct
from iscope.replay.dump_cuts import RowCuts, own_cuts
from iscope.replay.losses import terms_left
from iscope.replay.losses.positive_nll import positive_nll_terms, rewarded
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
        read_tokens: int64 [N], loss tokens, unscored ones included.
        loss_tokens: int64 [N], those of them that the filters leave in the mask.
        counted: bool [N], the rollouts that a mean over rollouts counts; None for all.
        loss: float64 [N], sum of the whole loss (policy and penalty term) before normalisation; None without what the
            loss multiplies its scores with.
        score: float64 [Q], its derivative by each token's current logprob; None like ``loss``.
        penalty_loss: float64 [N], sum of the penalty term where it has an aggregation of its own and is no part of
            ``loss``.
        penalty_score: float64 [Q], its derivative.
        rewarded: bool [N], the rollouts whose reward is above 0; None where the loss does not ask for them.
        positive_loss: float64 [N], sum of the term on their tokens, which is no part of ``loss``.
        positive_score: float64 [Q], its derivative.
    """

    scored: Tensor | None
    segments: Segments
    weight: Tensor
    keep: Tensor
    unscored: int
    read_tokens: Tensor
    loss_tokens: Tensor
    counted: Tensor | None = None
    loss: Tensor | None = None
    score: Tensor | None = None
    penalty_loss: Tensor | None = None
    penalty_score: Tensor | None = None
    rewarded: Tensor | None = None
    positive_loss: Tensor | None = None
    positive_score: Tensor | None = None

    def cpu(self) -> Outcome:
        """Return it in the CPU's memory."""
        named = ((part.name, getattr(self, part.name)) for part in fields(self))
        moved: dict[str, Any] = {name: values.cpu() for name, values in named if isinstance(values, Tensor)}
        return replace(self, segments=Segments(self.segments.offsets.cpu()), **moved)


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
        cuts: what there is to know of whole batches first (``dump_cuts``); None where these rollouts are the batch.
    """
    found = usable(batch)
    view, scored = scored_view(batch, found, unscored)
    view.cuts = own_cuts(view, (recipe,), batch.columns) if cuts is None else cuts
    correction = correct(view, recipe)
    if mean_weight is not None:
        correction = normalised(view, correction, mean_weight)
    read_tokens = loss_tokens_of(batch)
    loss_tokens = remaining_loss_tokens(read_tokens, view, recipe, correction)
    good = rewarded(recipe.loss, batch.columns)
    good = None if good is None else good.to(view.device)
    outcome = Outcome(
        scored=scored,
        segments=view.segments,
        weight=correction.applied_weight(view),
        keep=correction.keep(view),
        unscored=sum(count for kinds in found.unscored.values() for count in kinds.values()),
        read_tokens=read_tokens,
        loss_tokens=loss_tokens,
        counted=counted_rollouts(recipe.loss, loss_tokens, dropped_rollouts(recipe, correction)),
        rewarded=good,
    )
    if needs_advantage(recipe.loss) and batch.advantage is None:
        return outcome
    if good is not None:
        dropped = dropped_tokens(view, recipe, correction)
        value, score = positive_nll_terms(view, recipe.loss, good, dropped)
        outcome = replace(outcome, positive_loss=view.segments.sum(value), positive_score=score)
    terms, penalty = terms_left(view, recipe, correction), recipe.loss.penalty
    if penalty is None or penalty.aggregation is None or terms.penalty is None:
        return replace(outcome, loss=view.segments.sum(terms.loss()), score=terms.score())
    return replace(
        outcome,
        loss=view.segments.sum(terms.policy),
        score=terms.coefficient,
        penalty_loss=view.segments.sum(terms.penalty),
        penalty_score=terms.penalty_coefficient,
    )


def divided(
    outcome: Outcome, recipe: BoundRecipe, batch: Tensor, totals: Totals, groups: Tensor | None = None
) -> tuple[Tensor, Tensor] | None:
    """What each of N rollouts adds to the loss of its batch, and its derivative by each of Q tokens, float64.

    None without what the loss multiplies its scores with. Arguments as of ``iscope.replay.aggregation.divisors``.
    """
    if outcome.loss is None or outcome.score is None:
        return None
    loss = recipe.loss
    divisor = divisors(loss, outcome.loss_tokens, batch, totals, groups)
    value, score = outcome.loss / divisor, outcome.score / outcome.segments.expand(divisor)
    if outcome.positive_loss is not None and outcome.positive_score is not None:
        tokens = totals.rewarded_tokens[batch].clamp(min=1).double() + loss.denominator.epsilon
        value = value + outcome.positive_loss / tokens
        score = score + outcome.positive_score / outcome.segments.expand(tokens)
    if outcome.penalty_loss is None or outcome.penalty_score is None:
        return value, score
    assert loss.penalty is not None
    assert loss.penalty.aggregation is not None
    own = replace(loss, aggregation=loss.penalty.aggregation)
    spared = any(rule.spares_penalty for rule in recipe.filters)
    divisor = divisors(own, outcome.read_tokens if spared else outcome.loss_tokens, batch, totals, groups)
    return value + outcome.penalty_loss / divisor, score + outcome.penalty_score / outcome.segments.expand(divisor)


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


def needs_advantage(loss: Loss) -> bool:
    """Whether there is no loss without advantages."""
    return loss.signal == "advantage"


def loss_tokens_of(batch: RolloutBatch) -> Tensor:
    """Tokens of each rollout whose loss mask is true, int64 [N]."""
    layout = Segments(batch.offsets)
    return layout.lengths if batch.loss_mask is None else layout.count(batch.loss_mask)
