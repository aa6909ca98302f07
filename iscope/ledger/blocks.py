"""Blocks: so few rollouts of a batch at a time that their columns stay in cache from one operation to the next."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from iscope.ledger import histogram
from iscope.ledger.arranged import arrange
from iscope.ledger.bulk import Bulk, BulkBuilder
from iscope.ledger.by_p import fill_gaps
from iscope.ledger.histogram import Counts
from iscope.ledger.plan import Plan
from iscope.ledger.screen import COUNTED, Screen, pairs_to_screen
from iscope.ledger.sheet import Sheet
from iscope.ledger.tail import BatchTail
from iscope.recipes.model import Pair
from iscope.replay.segments import Array, Segments
from iscope.replay.view import TokenView

Columns = dict[str, Tensor]

# A float64 column of a block takes 512 KiB: a few of them fit into the cache of a core.
_TOKENS = 2**16


@dataclass(frozen=True)
class Blocks:
    """What the tokens of a view give before recipes are replayed.

    Attributes:
        columns: sums over all tokens, float64 [N].
        log_ratio_sums: S of each pair, float64 [N], nats.
        counts: histograms of all tokens.
        outside: int64, which tokens lie outside the screen; None: all of them do.
        bulk: sums over those inside.
        by_p: columns by q, of those inside; empty where none can be.
    """

    columns: Columns
    log_ratio_sums: dict[Pair, Tensor]
    counts: dict[str, Counts]
    outside: Tensor | None
    bulk: Bulk
    by_p: Columns


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # views of unscored tokens hold what no logprob is
def measure_blocks(view: TokenView, plan: Plan, screen: Screen, pairs: list[Pair], tail: BatchTail) -> Blocks:
    """Measure the tokens of a view, block by block.

    Args:
        view: the tokens of N whole rollouts.
        plan: the plan.
        screen: its screen.
        pairs: the pairs to measure, trainer over inference first.
        tail: takes what may be among the largest log-ratios.
    """
    offsets = view.segments.offsets.numpy()
    screened = {view.resolve(pair) for pair in pairs_to_screen(plan)}
    bands = [(screen.low, screen.high) if pair in screened else COUNTED for pair in pairs]
    slices = _slices(offsets)
    sheet = Sheet(4, max(int(offsets[rows.stop] - offsets[rows.start]) for rows in slices))
    bulk = BulkBuilder(view, plan, pairs, sheet)
    counts = np.zeros((1 + len(pairs), histogram.BINS + 1), dtype=np.int64)
    sums, outside = [], []
    for rows in slices:
        block, start = view.block(rows), int(offsets[rows.start])
        values = [block.log_ratio(pair).numpy() for pair in pairs]
        inference = block.inference.numpy()
        sums.append(_sums(block.segments, [block.trainer.numpy(), inference, *values], sheet))
        _count(counts, inference, values)
        tail.add(block, pairs)
        flags = _outside(values, bands)
        if block.repair == "trl":
            flags |= _without_probability(block)
        inside, others = arrange(inference, block.segments.offsets.numpy(), flags)
        outside.append(others + start)
        bulk.add(inside, block, start)
    trainer, inference_sum, *pair_sums = torch.from_numpy(np.concatenate(sums, axis=1))
    return Blocks(
        {"trainer_logprob_sum": trainer, "inference_logprob_sum": inference_sum},
        dict(zip(pairs, pair_sums, strict=True)),
        dict(zip(["gap", *map(str, pairs)], counts, strict=True)),
        torch.from_numpy(np.concatenate(outside)),
        *bulk.finish(),
    )


def _sums(segments: Segments, columns: list[Array], sheet: Sheet) -> Array:
    """Sums of each column [P] over each rollout, [K, N]."""
    (row,) = sheet.rows(1, segments.tokens)
    sums = np.empty((len(columns), segments.rows))
    for total, column in zip(sums, columns, strict=True):
        np.copyto(row, column)
        total[:] = segments.reduce(np.add, row, 0.0)
    return sums


def _count(counts: Array, inference: Array, log_ratios: list[Array]) -> None:
    """Add a block to the histograms: of the gap, and of each pair's log-ratios, trainer over inference first."""
    values = np.empty((len(counts), len(inference)), dtype=np.float32)
    for row, log_ratio in zip(values[1:], log_ratios, strict=True):
        np.copyto(row, log_ratio, casting="same_kind")
    certain = fill_gaps(values[0], inference, log_ratios[0])
    bins = histogram.bin_of(values)
    np.copyto(bins[0], histogram.ZERO_WEIGHT, where=certain)
    for total, found in zip(counts, bins, strict=True):
        total += histogram.count(found)
    counts[0, histogram.ZERO_WEIGHT] = 0


def _outside(log_ratios: list[Array], bands: list[tuple[float, float]]) -> Array:
    """Bool [P], tokens with a log-ratio outside its pair's band."""
    flags = np.zeros(len(log_ratios[0]), dtype=np.bool_)
    for values, (low, high) in zip(log_ratios, bands, strict=True):
        flags |= values < low
        flags |= values > high
    return flags


def _without_probability(block: TokenView) -> Array:
    """Bool [P], tokens whose log-ratio was made 0 for want of one: a filter on probabilities still sees the NaN."""
    flags: Array = (block.trainer.isnan() | block.inference.isnan() | block.policy.isnan()).numpy()
    return flags


def _slices(offsets: Array) -> list[slice]:
    """Consecutive rollouts of about a block's tokens; at least one block, at least one rollout in each."""
    edges, rows = [0], len(offsets) - 1
    while edges[-1] < rows:
        last = int(np.searchsorted(offsets, offsets[edges[-1]] + _TOKENS, side="right")) - 1
        edges.append(max(last, edges[-1] + 1))
    return [slice(first, last) for first, last in pairwise(edges)] or [slice(0, 0)]
