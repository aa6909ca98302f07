"""RolloutBatch + plan -> the ledger's rows, histograms and counts of that batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from iscope.ledger.blocks import Blocks
from iscope.ledger.bulk import nothing
from iscope.ledger.by_p import measure_by_p
from iscope.ledger.framework_columns import measure_frameworks
from iscope.ledger.gradient import by_sign, can_differentiate, can_replay, is_constant, total_by_sign
from iscope.ledger.histogram import Counts
from iscope.ledger.logged import measure_logged
from iscope.ledger.looked import Looked, look, see, seen_together
from iscope.ledger.loss_columns import measure_loss
from iscope.ledger.pair_columns import measure_pair
from iscope.ledger.plan import Plan
from iscope.ledger.recipe_columns import measure_recipe
from iscope.ledger.screen import screen_of
from iscope.ledger.split import Columns, Split
from iscope.ledger.sweep.batch import Splits, measure_families
from iscope.ledger.sweep.intervals import FamilySums
from iscope.ledger.tail import BatchTail, Tails, put_together
from iscope.ledger.tracked_columns import measure_tracked
from iscope.ledger.whole import fetched
from iscope.replay.dump_cuts import RowCuts, cuts_of
from iscope.replay.losses import base_coefficient
from iscope.replay.segments import Segments
from iscope.replay.usable import added_up, usable
from iscope.replay.view import TokenView, token_view
from iscope.rollouts import RolloutBatch


@dataclass(frozen=True)
class Measured:
    """What one batch, or several, add to the ledger.

    Attributes:
        columns: one tensor [N] per measured column, the rollouts of one batch after those of the other.
        trained: the same columns for the rollouts at ``trained_rows``, measured as their framework would have.
        trained_rows: int64, which of the N rollouts hold unscored loss tokens, rising.
        histograms: counts of token log-ratios, by pair, and of applied log-weights, by recipe.
        unscored: unusable values by side and kind.
        rounded_positive: logprobs above 0 that are rounding.
        tails: token log-ratios that may be among the largest, by pair.
        sweeps: sums of each of the plan's families; None where it cannot be replayed.
    """

    columns: Columns
    trained: Columns
    trained_rows: Tensor
    histograms: dict[str, Counts]
    unscored: dict[str, dict[str, int]] = field(default_factory=dict)
    rounded_positive: int = 0
    tails: Tails = field(default_factory=dict)
    sweeps: tuple[FamilySums | None, ...] = ()


def measure(
    batch: RolloutBatch, plan: Plan, cuts: RowCuts | None = None, floors: Mapping[str, float] | None = None
) -> Measured:
    """Measure everything the plan asks for; each rollout's row depends on its own tokens only, and its cuts.

    Args:
        batch: the rollouts; they are measured on the device that they are on, and what comes out is on the CPU.
        plan: the plan.
        cuts: where filters that look at a whole batch cut each rollout's; None where these rollouts are the batch.
        floors: what a log-ratio must exceed to count among the dump's largest, by pair.
    """
    return measure_together([look(batch, plan, cuts, floors)], plan)


def measure_together(looked: Sequence[Looked], plan: Plan) -> Measured:
    """Replay the recipes on batches that go with each other: what they add to the ledger."""
    view, blocks = seen_together(looked, plan)
    counts = [one.token_counts() for one in looked]
    measured, histograms, splits = _measure_view(view, blocks, plan)
    columns = _stacked(counts) | measured
    trained_rows = (columns["loss_tokens"] != columns["usable_tokens"]).nonzero().squeeze(1)
    sweeps: tuple[FamilySums | None, ...] = ()
    if plan.families:
        (one,) = looked
        sweeps = measure_families(one.batch, plan, splits, columns["loss_tokens"])
    return Measured(
        columns=fetched(columns),
        trained=fetched(_all_trained(looked, counts, plan)) if trained_rows.numel() else {},
        trained_rows=trained_rows.cpu(),
        histograms=histograms,
        unscored=added_up(one.usable.unscored for one in looked),
        rounded_positive=sum(one.usable.rounded_positive for one in looked),
        tails=put_together([one.tails for one in looked]),
        sweeps=sweeps,
    )


def _measure_view(view: TokenView, blocks: Blocks, plan: Plan) -> tuple[Columns, dict[str, Counts], Splits]:
    pairs, screen = list(blocks.log_ratio_sums), screen_of(plan)
    columns, counts = dict(blocks.columns), dict(blocks.counts)
    for pair, total in blocks.log_ratio_sums.items():
        view.remember_log_ratio_sum(pair, total)
    rest = view if blocks.outside is None else view.part(blocks.outside)
    columns |= {name: blocks.by_p.get(name, 0) + values for name, values in measure_by_p(rest).items()}
    raw = {pair: counts[str(pair)] for pair in pairs}
    split = Split(blocks.bulk, rest, raw)
    dense = Split(nothing(view.segments.rows, split.bulk), view, raw)
    for pair in pairs:
        columns |= {f"{pair}:{name}": values for name, values in measure_pair(split, pair).items()}
    columns |= measure_frameworks(view, plan)
    for index in range(len(plan.bases)):
        if can_differentiate(view, plan.bases[index]):
            columns |= {f"base{index}:{name}": values for name, values in _base(split, plan, index).items()}
    for index, recipe in enumerate(plan.recipes):
        if can_replay(view, recipe):
            measured, applied = measure_recipe(dense if index in screen.dense else split, recipe, plan.base_of[index])
            measured |= measure_loss(view, recipe) | measure_logged(view, recipe) | measure_tracked(view, recipe)
            columns |= {f"recipe{index}:{name}": values for name, values in measured.items()}
            if applied is not None:
                counts[f"recipe{index}"] = applied
    return columns, counts, lambda index: dense if index in screen.dense else split


def _base(split: Split, plan: Plan, index: int) -> Columns:
    """Gradient of an uncorrected loss, by sign of the signal."""
    rest, base = split.rest, plan.bases[index]
    if base.couples_tokens:
        whole = rest.rollouts
        return by_sign(whole, base, base_coefficient(whole, base).abs() * whole.uncertainty)
    if is_constant(rest, base):
        total = rest.once("uncertainty summed", lambda: rest.segments.sum(rest.uncertainty))
        found = total_by_sign(rest, base, total)
    else:
        found = by_sign(rest, base, base_coefficient(rest, base).abs() * rest.uncertainty)
    return {name: total + split.bulk.gradients[index, None][name] for name, total in found.items()}


def _all_trained(looked: Sequence[Looked], counts: Sequence[Columns], plan: Plan) -> Columns:
    """Measure the rollouts with unscored tokens once more, every loss token in, as their framework does."""
    which = [(of["loss_tokens"] != of["usable_tokens"]).nonzero().squeeze(1) for of in counts]
    return _stacked([_trained(one, plan, rows) for one, rows in zip(looked, which, strict=True) if rows.numel()])


def _trained(looked: Looked, plan: Plan, rows: Tensor) -> Columns:
    part = take_rollouts(looked.batch, rows)
    view = token_view(part, part.loss_mask, "trl")
    view.cuts = cuts_of(looked.view.cuts, rows)
    found = Looked(part, usable(part), view, see(view, plan, BatchTail()), {})
    return found.token_counts() | _measure_view(*seen_together([found], plan), plan)[0]


def _stacked(parts: Sequence[Columns]) -> Columns:
    """Columns of several batches, the rows of one after those of the other."""
    return parts[0] if len(parts) == 1 else {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def take_rollouts(batch: RolloutBatch, rows: Tensor) -> RolloutBatch:
    """Return the batch that holds only the given rollouts, int64 rows."""
    layout = Segments(batch.offsets)
    chosen = torch.zeros_like(layout.lengths, dtype=torch.bool)
    chosen[rows] = True
    tokens = layout.expand(chosen)

    def pick(column: Tensor | None) -> Tensor | None:
        return None if column is None else column[tokens]

    offsets = rows.new_zeros(rows.numel() + 1)
    torch.cumsum(layout.lengths[rows], 0, out=offsets[1:])
    advantage = batch.advantage
    if advantage is not None:
        advantage = advantage[tokens] if batch.advantage_per_token else advantage[rows]
    return RolloutBatch(
        offsets=offsets,
        trainer_logprobs=batch.trainer_logprobs[tokens],
        inference_logprobs=batch.inference_logprobs[tokens],
        current_logprobs=pick(batch.current_logprobs),
        ref_logprobs=pick(batch.ref_logprobs),
        loss_mask=pick(batch.loss_mask),
        advantage=advantage,
        advantage_per_token=batch.advantage_per_token,
        columns=batch.columns[rows.cpu().numpy()],
        nulls={name: flags[tokens] for name, flags in batch.nulls.items()},
    )
