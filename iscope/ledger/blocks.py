"""Blocks: so few rollouts of a batch at a time that their columns stay in cache from one operation to the next."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from iscope.ledger import histogram
from iscope.ledger.bulk import Bulk, BulkBuilder
from iscope.ledger.by_p import CERTAIN
from iscope.ledger.histogram import Counts
from iscope.ledger.kernels import bins, tokens
from iscope.ledger.plan import Plan
from iscope.ledger.scratch import Scratch
from iscope.ledger.screen import COUNTED, Screen, pairs_to_screen
from iscope.ledger.tail import BatchTail
from iscope.recipes.model import Pair
from iscope.replay.gathered import places_of
from iscope.replay.segments import Array
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
    scratch = Scratch(max(int(offsets[rows.stop] - offsets[rows.start]) for rows in slices) + 1)
    bulk = BulkBuilder(view, plan, pairs, scratch)
    sums = np.empty((2 + len(pairs), view.segments.rows))
    counts = np.zeros((1 + len(pairs), 2, histogram.BINS + 1), dtype=np.int64)
    outside = []
    for rows in slices:
        block, start = view.block(rows), int(offsets[rows.start])
        inference, edges = block.inference.numpy(), block.segments.offsets.numpy()
        values = [block.log_ratio(pair).numpy() for pair in pairs]
        for total, column in zip(sums, (block.trainer.numpy(), inference, *values), strict=True):
            tokens.sum_tokens(total, rows.start, edges, column)
        _count(counts, inference, values, scratch)
        tail.add(block, pairs)
        flags = _outside(values, bands, scratch)
        if block.repair == "trl":
            flags |= _without_probability(block)
        outside.append(places_of(torch.from_numpy(flags)) + start)
        bulk.add(block, flags, rows.start, start)
    trainer, inference_sum, *pair_sums = torch.from_numpy(sums)
    counts[0, :, histogram.ZERO_WEIGHT] = 0
    return Blocks(
        {"trainer_logprob_sum": trainer, "inference_logprob_sum": inference_sum},
        dict(zip(pairs, pair_sums, strict=True)),
        dict(zip(["gap", *map(str, pairs)], counts.sum(1), strict=True)),
        torch.cat(outside),
        *bulk.finish(),
    )


def _count(counts: Array, inference: Array, log_ratios: list[Array], scratch: Scratch) -> None:
    """Add a block to the histograms: of the gap, and of each pair's log-ratios, trainer over inference first."""
    size = len(inference)
    found, values = scratch.column("bins", np.int16, size), scratch.column("values", np.float32, size)
    bins.fill_gaps(values, inference, log_ratios[0])
    bins.fill_bins(found, values.view(np.int32))
    bins.clear_certain(found, inference, inference.dtype.type(CERTAIN))
    bins.count(counts[0], found)
    for total, log_ratio in zip(counts[1:], log_ratios, strict=True):
        bins.fill_bins(found, log_ratio.astype(np.float32, copy=False).view(np.int32))
        bins.count(total, found)


def _outside(log_ratios: list[Array], bands: list[tuple[float, float]], scratch: Scratch) -> Array:
    """Bool [P], tokens with a log-ratio outside its pair's band."""
    flags = scratch.column("flags", np.bool_, len(log_ratios[0]))
    flags.fill(False)
    for values, (low, high) in zip(log_ratios, bands, strict=True):
        tokens.flag_outside(flags, values, values.dtype.type(low), values.dtype.type(high))
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
