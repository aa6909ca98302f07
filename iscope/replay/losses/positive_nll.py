"""The term that raises the probability of good rollouts: the mean of -log pi over their tokens."""

from __future__ import annotations

import polars as pl
import torch
from torch import Tensor

from iscope.recipes.model import Loss, bound_value
from iscope.replay.view import TokenView


def rewarded(loss: Loss, columns: pl.DataFrame) -> Tensor | None:
    """Bool [N], the rollouts whose reward is above 0; None where the loss has no such term or there are no rewards.

    Args:
        loss: the loss.
        columns: columns of the rollouts, N rows, with ``reward`` where there is one.
    """
    if not loss.needs_reward or "reward" not in columns.columns:
        return None
    above = columns["reward"].cast(pl.Float64, strict=False).fill_nan(None) > 0
    return torch.from_numpy(above.fill_null(value=False).to_numpy(writable=True))


def positive_nll_terms(view: TokenView, loss: Loss, good: Tensor, dropped: Tensor | None) -> tuple[Tensor, Tensor]:
    """Compute coefficient * -log pi on the tokens of good rollouts, and its derivative by log pi, float64 [P].

    Source: NeMo-RL git 7ea279ab, positive_example_nll_weight, after VAPO (arXiv 2504.05118). It is still to be divided
    by the number of these tokens in the batch.

    Args:
        view: the tokens.
        loss: the loss.
        good: bool [N], the rollouts whose reward is above 0.
        dropped: bool [P], tokens that filters take out of the loss mask; None for none.
    """
    assert loss.positive_nll is not None
    factor = bound_value(loss.positive_nll.coefficient) or 0.0
    taken = view.segments.expand(good)
    taken = taken if dropped is None else taken & ~dropped
    return (view.policy.double() * -factor).masked_fill(~taken, 0.0), -factor * taken.double()
