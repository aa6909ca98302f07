"""What the loss of each rollout is divided by: with its recipe, uncorrected, and if only what is kept counted.

Source: ``iscope.replay.aggregation.divisors``, which replays use; the batch is the plan's. Counts include rollouts
without a scored token and loss tokens that are not scored, where the framework's do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl
import torch
from torch import Tensor

from iscope.analysis.latest import latest
from iscope.analysis.numbers import Array
from iscope.analysis.recipe_rows import RecipeRows
from iscope.ledger.rows import LedgerRows
from iscope.recipes.model import Aggregation, Denominator, Loss
from iscope.replay.aggregation import Totals, counted_rollouts, counted_tokens, divisors
from iscope.replay.groups import Groups

_FIRST = torch.zeros(1, dtype=torch.int64)  # the batch, where there is one
_NO_TOKENS = torch.zeros(1, dtype=torch.int64)  # of rollouts whose own count does not matter


@dataclass(frozen=True)
class Denominators:
    """Logs of what divides the loss of each of N rollouts, float64 [N], or [1] where it is the same for all.

    Attributes:
        kept: with the recipe: tokens and rollouts that its filters drop do not count, where the framework says so.
        base: uncorrected, nothing dropped.
        full: the same, but that counts of the batch stand in for constants that a framework takes instead.
    """

    kept: Array
    base: Array
    full: Array


def denominators(rows: RecipeRows) -> Denominators:
    """Compute them for the rollouts of a recipe that was replayed, once for all figures."""
    return latest(rows.rows, "denominators", rows.index, lambda: _denominators(rows))


def _denominators(rows: RecipeRows) -> Denominators:
    loss, counted, batch = rows.recipe.loss, rows.recipe.loss.denominator, _Batch.of(rows)
    read, left, gone = batch.read_tokens, batch.left_tokens, batch.gone
    every = counted_rollouts(loss, read, None)
    base, full = latest(rows.rows, "uncorrected denominators", (loss.aggregation, counted), lambda: _uncorrected(batch))
    counted_left = every if counted.counts_dropped else counted_rollouts(loss, left, gone)
    return Denominators(
        kept=base if left is read else batch.logs(loss, left, read if counted.counts_dropped else left, counted_left),
        base=base,
        full=full,
    )


def survivors(rows: RecipeRows) -> Array:
    """Logs of the full denominators if only kept tokens, and rollouts and groups with one, counted; [N] or [1]."""
    own, batch, kept = _with_counts(rows.recipe.loss), _Batch.of(rows), rows.kept
    if batch.is_whole and own.aggregation is not Aggregation.SEQ_MEAN_TOKEN_MEAN:
        return batch.logs_of_whole(own, _NO_TOKENS, int(kept.sum()), int(np.count_nonzero(kept > 0)))
    tokens = torch.from_numpy(np.concatenate([kept, np.zeros(batch.rest, dtype=np.int64)], dtype=np.int64))
    return batch.logs(own, tokens, tokens, tokens > 0)


def _with_counts(loss: Loss) -> Loss:
    """A loss that counts where its framework takes constants."""
    counted = loss.denominator
    plain = Denominator(norm_length=counted.norm_length, counts=counted.counts, counts_dropped=counted.counts_dropped)
    return replace(loss, denominator=plain)


def _uncorrected(batch: _Batch) -> tuple[Array, Array]:
    """Base and full ones, which recipes of one loss share."""
    loss, read = batch.rows.recipe.loss, batch.read_tokens
    own = _with_counts(loss)
    every = counted_rollouts(loss, read, None)
    base = batch.logs(loss, read, read, every)
    return base, base if own == loss else batch.logs(own, read, read, every)


def penalty_mean(rows: RecipeRows, values: Array) -> float:
    """Sum up values of a penalty term [N], sums over each rollout's tokens, as the recipe's loss sums up that term.

    Of several batches it is the sum of theirs.
    """
    loss, penalty, counted = rows.recipe.loss, rows.recipe.loss.penalty, rows.recipe.loss.denominator
    assert penalty is not None
    batch = _Batch.of(rows)
    read, left, gone = batch.read_tokens, batch.left_tokens, batch.gone
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
    def is_whole(self) -> bool:
        """Whether all rollouts are one batch, and nothing goes by groups."""
        return self.rows.rows.batch_column is None and self.groups is None

    @cached_property
    def read_tokens(self) -> Tensor:
        """Loss tokens, scored or not, int64."""
        rows = self.rows.rows
        return torch.from_numpy(rows.recent("batch loss tokens", lambda: _integers(self.frame["loss_tokens"]).numpy()))

    @cached_property
    def left_tokens(self) -> Tensor:
        """Loss tokens that the filters leave, int64; the very ``read_tokens`` where they drop none."""
        dropped, gone = self._column("logged.dropped"), self.gone
        left = self.read_tokens if dropped is None else self.read_tokens - dropped
        return left if gone is None else left.masked_fill(gone, 0)

    @cached_property
    def gone(self) -> Tensor | None:
        """Rollouts that a filter drops as a whole, bool; None where none can."""
        gone = self._column("logged.gone")
        return None if gone is None else gone > 0

    def _column(self, name: str) -> Tensor | None:
        """A column of the recipe as int64; None where it was not measured."""
        name = f"recipe{self.rows.index}:{name}"
        return _integers(self.frame[name]) if name in self.frame.schema else None

    def logs(self, loss: Loss, tokens: Tensor, summed: Tensor, counted: Tensor | None) -> Array:
        """Log of the divisor of each rollout with a scored token [N], or [1] where it is the same for all.

        Args:
            loss: the loss.
            tokens: loss tokens of each rollout, by which its own mean goes.
            summed: what each adds to the tokens of its batch and group.
            counted: the rollouts that a mean over rollouts counts, and their groups one over groups; None for all.
        """
        scored, summed = self.rows.rows.rollouts, counted_tokens(loss, summed)
        if self.is_whole:
            rollouts = summed.numel() if counted is None else int(np.count_nonzero(counted.numpy()))
            # NumPy's sums: torch wakes its threads for so little.
            return self.logs_of_whole(loss, tokens[:scored], int(summed.numpy().sum()), rollouts)
        totals = Totals.zeros(0).add(summed, self.places, counted, self.groups)
        found = divisors(loss, tokens, self.places, totals, self.groups)[:scored]
        return np.asarray(np.log(found.numpy()))

    def logs_of_whole(self, loss: Loss, tokens: Tensor, summed: int, counted: int) -> Array:
        """The same where all rollouts are one batch, given the sums of what each adds; ``tokens`` are [N]."""
        own = loss.aggregation is Aggregation.SEQ_MEAN_TOKEN_MEAN
        totals = Totals(torch.tensor([summed]), torch.tensor([counted]))
        return np.asarray(np.log(divisors(loss, tokens if own else _NO_TOKENS, _FIRST, totals).numpy()))


def _integers(column: pl.Series) -> Tensor:
    return torch.from_numpy(column.cast(pl.Int64).to_numpy(writable=True))


def _grouped(frame: LedgerRows) -> pl.DataFrame:
    return frame.select(name for name in ("group_id",) if name in frame.columns)
