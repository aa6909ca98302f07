"""RolloutBatch + plan -> the ledger's rows, histograms and counts of that batch."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from iscope.ledger import histogram
from iscope.ledger.by_p import measure_by_p
from iscope.ledger.columns import (
    Columns,
    can_differentiate,
    can_replay,
    measure_base,
    measure_pair,
    measure_recipe,
)
from iscope.ledger.histogram import Counts
from iscope.ledger.plan import Plan
from iscope.recipes.model import Pair
from iscope.replay.segments import Segments
from iscope.replay.usable import Usable, usable
from iscope.replay.view import TokenView, token_view
from iscope.rollouts import RolloutBatch


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


def measure(batch: RolloutBatch, plan: Plan) -> Measured:
    """Measure everything the plan asks for; each rollout's row depends on its own tokens only."""
    found = usable(batch)
    view = _view(batch, found, plan)
    measured, histograms = _measure_view(view, plan)
    columns = _token_counts(batch, found, view) | measured
    trained_rows = (columns["loss_tokens"] != columns["usable_tokens"]).nonzero().squeeze(1)
    trained: Columns = {}
    if trained_rows.numel():
        trained = _trained(batch, plan, trained_rows)
    return Measured(columns, trained, trained_rows, histograms, found.unscored, found.rounded_positive)


def _view(batch: RolloutBatch, found: Usable, plan: Plan) -> TokenView:
    if plan.unscored == "neutral" and found.unscored:
        unusable = ~found.scored if batch.loss_mask is None else batch.loss_mask & ~found.scored  # type: ignore[operator]
        return token_view(batch, batch.loss_mask, "neutral", unusable)
    return token_view(batch, found.scored)


def _token_counts(batch: RolloutBatch, found: Usable, view: TokenView) -> Columns:
    layout = Segments(batch.offsets)
    loss = layout.lengths if batch.loss_mask is None else layout.count(batch.loss_mask)
    usable_tokens = layout.lengths if found.scored is None else layout.count(found.scored)
    nan = torch.zeros_like(loss) if found.nan is None else layout.count(found.nan)
    return {
        "tokens": layout.lengths,
        "loss_tokens": loss,
        "usable_tokens": usable_tokens,
        "scored": view.segments.lengths,
        "nan_tokens": nan,
    }


def _measure_view(view: TokenView, plan: Plan) -> tuple[Columns, dict[str, Counts]]:
    columns: Columns = {
        "trainer_logprob_sum": view.segments.sum(view.trainer.double()),
        "inference_logprob_sum": view.segments.sum(view.inference.double()),
    }
    pairs = _measured_pairs(view, plan)
    bins = {pair: histogram.bin_of(view.log_ratio(pair)) for pair in pairs}
    raw = {pair: histogram.count(bins[pair]) for pair in pairs}
    buckets, gaps = measure_by_p(view)
    columns |= buckets
    counts = {"gap": gaps} | {str(pair): raw[pair] for pair in pairs}
    for pair in pairs:
        columns |= {f"{pair}:{name}": values for name, values in measure_pair(view, pair).items()}
    for index, base in enumerate(plan.bases):
        if can_differentiate(view, base):
            columns |= {f"base{index}:{name}": values for name, values in measure_base(view, base).items()}
    for index, recipe in enumerate(plan.recipes):
        if not can_replay(view, recipe):
            continue
        measured, applied = measure_recipe(view, recipe, bins, raw)
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


def _trained(batch: RolloutBatch, plan: Plan, rows: Tensor) -> Columns:
    """Measure the rollouts with unscored tokens once more, every loss token in, as their framework does."""
    part = take_rollouts(batch, rows)
    view = token_view(part, part.loss_mask, "trl")
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
