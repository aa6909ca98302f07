"""Blocks: so few rollouts of a batch at a time that their columns stay in cache from one operation to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from iscope.ledger import histogram
from iscope.ledger.bulk import WEIGHTING, Bulk, Uneven, bulk_of
from iscope.ledger.by_p import CERTAIN, log_edges
from iscope.ledger.histogram import Counts
from iscope.ledger.kernels.walk import Found, Limits, Tokens, found_together, nothing_found, scratch_of, walk
from iscope.ledger.plan import Plan
from iscope.ledger.screen import COUNTED, screen_of
from iscope.ledger.tail import BatchTail
from iscope.recipes.model import Pair
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


@dataclass(frozen=True)
class Walked:
    """What a walk over the tokens of a view gave.

    Attributes:
        pairs: the pairs that were measured, trainer over inference first.
        uneven: which of the plan's bases were summed token by token.
        found: the sums and counts.
        outside: int64, which tokens lie outside the screen, rising.
    """

    pairs: list[Pair]
    uneven: list[int]
    found: Found
    outside: Tensor


def walk_over(view: TokenView, plan: Plan, pairs: list[Pair], tail: BatchTail) -> Walked:
    """Look at the tokens of a view, block by block.

    Args:
        view: the tokens of N whole rollouts.
        plan: the plan.
        pairs: the pairs to measure, trainer over inference first.
        tail: takes what may be among the largest log-ratios.
    """
    uneven = Uneven(view, plan)
    tokens = _tokens(view, pairs, uneven)
    rows = _first_rows(tokens.offsets)
    scratch = scratch_of(*(int(np.diff(edges).max(initial=0)) for edges in (tokens.offsets[rows], rows)))
    found = nothing_found(tokens)
    floors = [tail.floor(pair, values) for pair, values in zip(pairs, tokens.log_ratios, strict=True)]
    walk(tokens, _limits(view, plan, pairs, floors), rows, scratch, found)
    outside, *above = (places[:taken] for places, taken in zip(found.outside, found.taken, strict=True))
    tail.take(pairs, (values[places] for values, places in zip(tokens.log_ratios, above, strict=True)))
    found = found._replace(outside=outside.copy()[None])  # the rest of it would be held for nothing
    return Walked(pairs, uneven.indices, found, torch.from_numpy(found.outside[0]))


def together(walks: Sequence[Walked], tokens: Sequence[int]) -> Walked:
    """Return what one walk over views with so many tokens each, one after the other, would have given."""
    starts = [0, *accumulate(tokens)]
    outside = torch.cat([walk.outside + start for walk, start in zip(walks, starts, strict=False)])
    return Walked(walks[0].pairs, walks[0].uneven, found_together([walk.found for walk in walks]), outside)


def blocks_of(view: TokenView, plan: Plan, walked: Walked) -> Blocks:
    """Name what was found of the tokens of a view."""
    found, pairs = walked.found, walked.pairs
    trainer, inference, *pair_sums = torch.from_numpy(found.sums)
    counts = found.counts.sum(1)
    counts[0, histogram.ZERO_WEIGHT] = 0
    return Blocks(
        {"trainer_logprob_sum": trainer, "inference_logprob_sum": inference},
        dict(zip(pairs, pair_sums, strict=True)),
        dict(zip(["gap", *map(str, pairs)], counts, strict=True)),
        walked.outside,
        *bulk_of(view, plan, pairs, walked.uneven, found),
    )


def _tokens(view: TokenView, pairs: list[Pair], uneven: Uneven) -> Tokens:
    log_ratios = [view.log_ratio(pair).numpy() for pair in pairs]
    return Tokens(
        offsets=view.segments.offsets.numpy(),
        trainer=view.trainer.numpy(),
        inference=view.inference.numpy(),
        policy=view.policy.numpy(),
        log_ratios=log_ratios[0][None] if len(pairs) == 1 else np.stack(log_ratios),
        unknown=_without_probability(view) if view.repair == "trl" else np.empty(0, dtype=np.bool_),
        advantage=_advantage(view),
        sizes=uneven.sizes,
        signals=uneven.signals,
    )


def _limits(view: TokenView, plan: Plan, pairs: list[Pair], floors: list[float]) -> Limits:
    screen = screen_of(plan)
    kind = view.trainer.numpy().dtype
    screened = {view.resolve(pair) for pair in plan.screened_pairs}
    bands = [(screen.low, screen.high) if pair in screened else COUNTED for pair in pairs]
    low, high = np.array(bands, dtype=kind).T.copy()
    weighting = np.array([pair in WEIGHTING for pair in pairs])
    return Limits(low, high, np.array(floors, dtype=kind), log_edges(kind), np.array([CERTAIN], dtype=kind), weighting)


def _advantage(view: TokenView) -> Array:
    """Float64 [P] where it differs within a rollout, else nothing."""
    none: Array = np.empty(0)
    return none if view.advantage is None or not view.advantage_per_token else view.advantage.double().numpy()


def _without_probability(view: TokenView) -> Array:
    """Bool [P], tokens whose log-ratio was made 0 for want of one: a filter on probabilities still sees the NaN."""
    flags: Array = (view.trainer.isnan() | view.inference.isnan() | view.policy.isnan()).numpy()
    return flags


def _first_rows(offsets: Array) -> Array:
    """First rollout of each block of about so many tokens, and N; at least one rollout in each."""
    edges, rows = [0], len(offsets) - 1
    while edges[-1] < rows:
        last = int(np.searchsorted(offsets, offsets[edges[-1]] + _TOKENS, side="right")) - 1
        edges.append(max(last, edges[-1] + 1))
    return np.array(edges)
