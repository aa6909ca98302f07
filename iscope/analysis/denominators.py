"""What the loss of each rollout is divided by: with its recipe, uncorrected, and if only what is kept counted.

Source: ``iscope.replay.aggregation.divisors``, which replays use; the batch is the plan's. Counts include rollouts
without a scored token and loss tokens that are not scored, where the framework's do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import torch
from torch import Tensor

from iscope.analysis.numbers import Array
from iscope.analysis.rows import RecipeRows
from iscope.ledger.rows import LedgerRows
from iscope.recipes.model import Denominator, Loss
from iscope.replay.aggregation import Totals, counted_rollouts, counted_tokens, divisors
from iscope.replay.groups import Groups


@dataclass(frozen=True)
class Denominators:
    """Logs of what divides the loss of each of N rollouts, float64 [N].

    Attributes:
        kept: with the recipe: tokens and rollouts that its filters drop do not count, where the framework says so.
        base: uncorrected, nothing dropped.
        survivors: if only kept tokens, and rollouts and groups with one, counted.
        full: the same of all loss tokens; counts of the batch stand in for constants that a framework takes instead.
    """

    kept: Array
    base: Array
    survivors: Array
    full: Array


def denominators(rows: RecipeRows) -> Denominators:
    """Compute them for the rollouts of a recipe that was replayed, once for all figures."""
    kept, base, survivors, full = rows.rows.recent(("denominators", rows.index), lambda: _denominators(rows))
    return Denominators(kept, base, survivors, full)


def _denominators(rows: RecipeRows) -> Array:
    """The four of them [4, N]."""
    loss, counted, batch = rows.recipe.loss, rows.recipe.loss.denominator, _Batch.of(rows)
    read = batch.read_tokens
    left = (read - batch.column("logged.dropped")).masked_fill(batch.column("logged.gone") > 0, 0)
    gone = batch.column("logged.gone") > 0
    plain = Denominator(norm_length=counted.norm_length, counts=counted.counts, counts_dropped=counted.counts_dropped)
    own = replace(loss, denominator=plain)
    kept = torch.cat([torch.from_numpy(rows.kept.astype(np.int64)), torch.zeros(batch.rest, dtype=torch.int64)])
    every = counted_rollouts(loss, read, None)
    counted_left = every if counted.counts_dropped else counted_rollouts(loss, left, gone)
    return np.stack(
        [
            batch.logs(loss, left, read if counted.counts_dropped else left, counted_left),
            batch.logs(loss, read, read, every),
            batch.logs(own, kept, kept, kept > 0),
            batch.logs(own, read, read, every),
        ]
    )


def penalty_mean(rows: RecipeRows, values: Array) -> float:
    """Sum up values of a penalty term [N], sums over each rollout's tokens, as the recipe's loss sums up that term.

    Of several batches it is the sum of theirs.
    """
    loss, penalty, counted = rows.recipe.loss, rows.recipe.loss.penalty, rows.recipe.loss.denominator
    assert penalty is not None
    batch = _Batch.of(rows)
    read = batch.read_tokens
    gone = batch.column("logged.gone") > 0
    left = (read - batch.column("logged.dropped")).masked_fill(gone, 0)
    tokens = read if any(rule.spares_penalty for rule in rows.recipe.filters) else left
    own = replace(loss, aggregation=penalty.aggregation or loss.aggregation)
    logs = batch.logs(own, tokens, read if counted.counts_dropped else left, counted_rollouts(own, left, gone))
    return float((values * np.exp(-logs)).sum())


@dataclass(frozen=True)
class _Batch:
    """The rollouts of every batch, first those with a scored token [N], then the others.

    Attributes:
        rows: the recipe's.
        frame: the ledger's rows, in that order.
        rest: how many there are of the others.
        places: int64, the batch of each.
        groups: int64, the group of each; None where no loss asks for groups.
    """

    rows: RecipeRows
    frame: LedgerRows
    rest: int
    places: Tensor
    groups: Tensor | None

    @classmethod
    def of(cls, rows: RecipeRows) -> _Batch:
        frame = rows.rows.batch_frame
        places = torch.from_numpy(rows.rows.batch_places)
        groups = Groups().numbers(_grouped(frame), places) if rows.recipe.loss.aggregation.by_group else None
        return cls(rows, frame, frame.height - rows.rows.rollouts, places, groups)

    @property
    def read_tokens(self) -> Tensor:
        """Loss tokens, scored or not."""
        return torch.from_numpy(self.frame["loss_tokens"].cast(pl.Int64).to_numpy(writable=True))

    def column(self, name: str) -> Tensor:
        """A column of the recipe as int64; zeros where it was not measured."""
        name = f"recipe{self.rows.index}:{name}"
        if name not in self.frame.columns:
            return torch.zeros(self.frame.height, dtype=torch.int64)
        return torch.from_numpy(self.frame[name].cast(pl.Int64).to_numpy(writable=True))

    def logs(self, loss: Loss, tokens: Tensor, summed: Tensor, counted: Tensor | None) -> Array:
        """Log of the divisor of each rollout with a scored token [N].

        Args:
            loss: the loss.
            tokens: loss tokens of each rollout, by which its own mean goes.
            summed: what each adds to the tokens of its batch and group.
            counted: the rollouts that a mean over rollouts counts, and their groups one over groups; None for all.
        """
        totals = Totals.zeros(0).add(counted_tokens(loss, summed), self.places, counted, self.groups)
        scored = slice(0, self.rows.rows.rollouts)
        found = divisors(loss, tokens, self.places, totals, self.groups)[scored]
        logs: Array = np.log(found.numpy())
        return logs


def _grouped(frame: LedgerRows) -> pl.DataFrame:
    return frame.select(name for name in ("group_id",) if name in frame.columns)
