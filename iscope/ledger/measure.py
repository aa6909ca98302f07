"""RolloutBatch + plan -> the ledger's rows, histograms and counts of that batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from iscope.ledger import histogram
from iscope.ledger.bulk import Bulk, join, measure_bulk, nothing
from iscope.ledger.by_p import measure_by_p
from iscope.ledger.columns import Columns, Split, measure_pair, measure_recipe
from iscope.ledger.framework_columns import measure_frameworks
from iscope.ledger.gradient import by_sign, can_replay
from iscope.ledger.histogram import Counts
from iscope.ledger.logged import measure_logged
from iscope.ledger.loss_columns import measure_loss
from iscope.ledger.plan import Plan
from iscope.ledger.screen import Screen, pairs_to_screen, screen_of
from iscope.ledger.tracked_columns import measure_tracked
from iscope.recipes.model import Pair
from iscope.replay.dump_cuts import DumpCuts, RowCuts, cuts_of
from iscope.replay.losses import base_coefficient
from iscope.replay.segments import Segments
from iscope.replay.usable import Usable, usable
from iscope.replay.view import TokenView, scored_view, token_view
from iscope.rollouts import RolloutBatch

# Tokens of a block: its columns stay in cache from one operation to the next, and its calls cost little beside them.
_BLOCK_TOKENS = 2**18


@dataclass(frozen=True)
class Measured:
    """What one batch adds to the ledger.

    Attributes:
        columns: one tensor [N] per measured column.
        trained: the same columns for the rollouts at ``trained_rows``, measured as their framework would have.
        trained_rows: int64, rows of the batch that hold unscored loss tokens.
        histograms: counts of token log-ratios, by pair, and of applied log-weights, by recipe.
        unscored: unusable values by side and kind.
        rounded_positive: logprobs above 0 that are rounding.
    """

    columns: Columns
    trained: Columns
    trained_rows: Tensor
    histograms: dict[str, Counts]
    unscored: dict[str, dict[str, int]] = field(default_factory=dict)
    rounded_positive: int = 0


def measure(batch: RolloutBatch, plan: Plan, cuts: RowCuts | None = None) -> Measured:
    """Measure everything the plan asks for; each rollout's row depends on its own tokens only, and its cuts.

    Args:
        batch: the rollouts.
        plan: the plan.
        cuts: where filters that look at a whole batch cut each rollout's; None where these rollouts are the batch.
    """
    found = usable(batch)
    view, _ = scored_view(batch, found, plan.unscored)
    view.cuts = _own_cuts(view, plan) if cuts is None else cuts
    measured, histograms = _measure_view(view, plan)
    columns = _token_counts(batch, found, view) | measured
    trained_rows = (columns["loss_tokens"] != columns["usable_tokens"]).nonzero().squeeze(1)
    trained: Columns = {}
    if trained_rows.numel():
        trained = _trained(batch, plan, trained_rows, view.cuts)
    return Measured(columns, trained, trained_rows, histograms, found.unscored, found.rounded_positive)


def _own_cuts(view: TokenView, plan: Plan) -> RowCuts:
    found = DumpCuts(plan.recipes)
    found.add(view, torch.zeros(view.segments.rows, dtype=torch.int64))
    return found.cuts()


def _token_counts(batch: RolloutBatch, found: Usable, view: TokenView) -> Columns:
    layout = Segments(batch.offsets)
    loss = layout.lengths if batch.loss_mask is None else layout.count(batch.loss_mask)
    usable_tokens = loss if found.scored is batch.loss_mask else _usable_tokens(layout, found)
    nan = torch.zeros_like(loss) if found.nan is None else layout.count(found.nan)
    return {
        "tokens": layout.lengths,
        "loss_tokens": loss,
        "usable_tokens": usable_tokens,
        "scored": view.segments.lengths,
        "nan_tokens": nan,
    }


def _usable_tokens(layout: Segments, found: Usable) -> Tensor:
    return layout.lengths if found.scored is None else layout.count(found.scored)


def _measure_view(view: TokenView, plan: Plan) -> tuple[Columns, dict[str, Counts]]:
    pairs = _measured_pairs(view, plan)
    screen = screen_of(plan)
    blocks = [_measure_block(view.block(rows), plan, screen, pairs) for rows in _blocks(view)]
    columns = {name: torch.cat([block.columns[name] for block in blocks]) for name in blocks[0].columns}
    counts = {name: np.sum([block.counts[name] for block in blocks], axis=0) for name in blocks[0].counts}
    for pair in pairs:
        view.remember_log_ratio_sum(pair, torch.cat([block.log_ratio_sums[pair] for block in blocks]))
    starts = view.segments.offsets[[rows.start for rows in _blocks(view)]]
    outside = torch.cat([block.outside + start for block, start in zip(blocks, starts, strict=True)])
    raw = {pair: counts[str(pair)] for pair in pairs}
    split = Split(join([block.bulk for block in blocks]), view.part(outside), raw)
    dense = Split(nothing(view.segments.rows, split.bulk), view, raw)
    for pair in pairs:
        columns |= {f"{pair}:{name}": values for name, values in measure_pair(split, pair).items()}
    columns |= measure_frameworks(view, plan)
    for index in range(len(plan.bases)):
        if (index, None) in split.bulk.gradients:
            columns |= {f"base{index}:{name}": values for name, values in _base(split, plan, index).items()}
    for index, recipe in enumerate(plan.recipes):
        if can_replay(view, recipe):
            measured, applied = measure_recipe(dense if index in screen.dense else split, recipe, plan.base_of[index])
            measured |= measure_loss(view, recipe) | measure_logged(view, recipe) | measure_tracked(view, recipe)
            columns |= {f"recipe{index}:{name}": values for name, values in measured.items()}
            if applied is not None:
                counts[f"recipe{index}"] = applied
    return columns, counts


def _measured_pairs(view: TokenView, plan: Plan) -> list[Pair]:
    """Pairs that the view can tell apart: those of the plan, and engine and lag where there are current logprobs."""
    wanted = {view.resolve(pair) for pair in plan.pairs}
    if view.current is not None:
        wanted |= {Pair.CURRENT_INFERENCE, Pair.CURRENT_TRAINER}
    if view.ref is None:
        wanted.discard(Pair.CURRENT_REF)
    return [pair for pair in Pair if pair in wanted]


@dataclass(frozen=True)
class _Block:
    """What one cache-sized block of rollouts gives before recipes are replayed."""

    columns: Columns
    counts: dict[str, Counts]
    log_ratio_sums: dict[Pair, Tensor]
    outside: Tensor
    bulk: Bulk


def _measure_block(block: TokenView, plan: Plan, screen: Screen, pairs: list[Pair]) -> _Block:
    by_p, gaps = measure_by_p(block)
    columns: Columns = {
        "trainer_logprob_sum": block.segments.sum(block.trainer.double()),
        "inference_logprob_sum": block.segments.sum(block.inference.double()),
    } | by_p
    counts = {"gap": gaps}
    for pair in pairs:
        counts[str(pair)] = histogram.count(histogram.bin_of(block.log_ratio(pair)))
    sums = {pair: block.log_ratio_sum(pair) for pair in pairs}
    screened = {block.resolve(pair) for pair in pairs_to_screen(plan)}
    outside = _outside([block.log_ratio(pair) for pair in pairs if pair in screened], screen)
    return _Block(columns, counts, sums, outside, measure_bulk(block, outside, plan, pairs))


def _outside(log_ratios: list[Tensor], screen: Screen) -> Tensor:
    """Positions of the tokens with a log-ratio outside the screen."""
    flags = np.zeros(log_ratios[0].numel(), dtype=np.bool_)
    for d in log_ratios:
        values = d.numpy()
        flags |= values < screen.low
        flags |= values > screen.high
    return torch.from_numpy(np.flatnonzero(flags))


def _blocks(view: TokenView) -> list[slice]:
    """Consecutive rollouts of about a block's tokens; at least one block, at least one rollout in each."""
    offsets = view.segments.offsets.numpy()
    edges = [0]
    while edges[-1] < view.segments.rows:
        last = int(np.searchsorted(offsets, offsets[edges[-1]] + _BLOCK_TOKENS, side="right")) - 1
        edges.append(max(last, edges[-1] + 1))
    return [slice(first, last) for first, last in pairwise(edges)] or [slice(0, 0)]


def _base(split: Split, plan: Plan, index: int) -> Columns:
    """Gradient of an uncorrected loss, by sign of the signal."""
    rest, base = split.rest, plan.bases[index]
    if base.couples_tokens:
        whole = rest.rollouts
        return by_sign(whole, base, base_coefficient(whole, base).abs() * whole.uncertainty)
    found = by_sign(rest, base, base_coefficient(rest, base).abs() * rest.uncertainty)
    return {name: total + split.bulk.gradients[index, None][name] for name, total in found.items()}


def _trained(batch: RolloutBatch, plan: Plan, rows: Tensor, cuts: RowCuts) -> Columns:
    """Measure the rollouts with unscored tokens once more, every loss token in, as their framework does."""
    part = take_rollouts(batch, rows)
    view = token_view(part, part.loss_mask, "trl")
    view.cuts = cuts_of(cuts, rows)
    return _token_counts(part, usable(part), view) | _measure_view(view, plan)[0]


def take_rollouts(batch: RolloutBatch, rows: Tensor) -> RolloutBatch:
    """Return the batch that holds only the given rollouts, int64 rows."""
    layout = Segments(batch.offsets)
    chosen = torch.zeros(len(batch), dtype=torch.bool)
    chosen[rows] = True
    tokens = layout.expand(chosen)

    def pick(column: Tensor | None) -> Tensor | None:
        return None if column is None else column[tokens]

    offsets = torch.zeros(rows.numel() + 1, dtype=torch.int64)
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
        columns=batch.columns[rows.numpy()],
        nulls={name: flags[tokens] for name, flags in batch.nulls.items()},
    )
