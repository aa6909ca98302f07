"""One walk over the tokens of a batch, block by block: all that can be summed before recipes are replayed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from iscope.ledger.histogram import BINS
from iscope.ledger.kernels.bins import count, fill_bins, fill_gap_bins
from iscope.ledger.kernels.extremes import find_extremes
from iscope.ledger.kernels.ratios import SUMS, fill_certainty, fill_excess, sum_by_sign, sum_inside
from iscope.ledger.kernels.tokens import BUCKETS, fill_codes, flag_outside, sum_buckets
from iscope.replay.compiled import LANES, compiled, tokens_of
from iscope.replay.reductions import sums

Array = np.ndarray[Any, Any]

# Few tokens are outside, or among the largest: so many at a time are passed over without a look at each.
_LOOK = 64


class Tokens(NamedTuple):
    """P tokens of N rollouts, K pairs.

    Attributes:
        offsets: int64 [N + 1].
        trainer: logprobs [P], nats.
        inference: logprobs [P], nats.
        policy: logprobs [P] of the policy that is differentiated, nats.
        log_ratios: d of each pair [K, P], nats, trainer over inference first.
        unknown: bool [P], tokens that are outside whatever their log-ratio; [0] where there are none.
        advantage: float64 [P] where it differs within a rollout, else [0].
        sizes: abs(c_t) of M uncorrected losses, where it differs within a rollout, float64 [M, P].
        signals: what multiplies the score in those, float64 [M, P].
    """

    offsets: Array
    trainer: Array
    inference: Array
    policy: Array
    log_ratios: Array
    unknown: Array
    advantage: Array
    sizes: Array
    signals: Array


class Limits(NamedTuple):
    """Where tokens are told apart, in the precision of their logprobs.

    Attributes:
        low: lower edge of each pair's band [K], nats.
        high: upper edge [K], nats.
        floors: what a log-ratio must exceed to count among the largest [K], nats.
        edges: log of the edges between buckets of q [BUCKETS - 1].
        certain: the logprob of q from which on 1 - q is all rounding, [1].
        weighting: bool [K], pairs whose ratio can weight a gradient.
    """

    low: Array
    high: Array
    floors: Array
    edges: Array
    certain: Array
    weighting: Array


class Found(NamedTuple):
    """What a walk gives.

    Attributes:
        sums: over all tokens: trainer and inference logprobs and each pair's d, float64 [2 + K, N].
        counts: histograms of the gap and of each pair's d, in two halves, int64 [1 + K, 2, BINS + 1].
        outside: where tokens are outside, and where d of each pair exceeds its floor, rising, int64 [1 + K, P + 1].
        taken: how many of each mean something, int64 [1 + K].
        buckets: over the tokens inside, by bucket of q, as ``sum_buckets`` writes them, float64 [4, BUCKETS, N].
        inside: ``SUMS`` of each pair over the tokens inside, float64 [K, 7, N].
        keys: extremes of each pair over the tokens inside, as ``extremes_of`` takes them, int64 [K, 2, N].
        signed: gradients by sign of the signal at weight 1 and weighted by each pair, float64 [M, 1 + K, 2, N].
    """

    sums: Array
    counts: Array
    outside: Array
    taken: Array
    buckets: Array
    inside: Array
    keys: Array
    signed: Array


_BY_ROLLOUT = ("sums", "buckets", "inside", "keys", "signed")


class Scratch(NamedTuple):
    """Columns of a block: fresh memory would cost more than the arithmetic on it."""

    offsets: Array
    flags: Array
    bins: Array
    codes: Array
    certainty: Array
    excess: Array
    k3: Array
    free: Array


def scratch_of(tokens: int, rollouts: int) -> Scratch:
    """Return memory for blocks of up to so many tokens and rollouts."""
    offsets, flags = np.empty(rollouts + 1, np.int64), np.empty(tokens, np.bool_)
    bins, codes, wide = np.empty(tokens, np.int16), np.empty(tokens, np.float32), np.empty((4, tokens))
    return Scratch(offsets, flags, bins, codes, *wide)


def nothing_found(tokens: Tokens) -> Found:
    """Return what a walk over these tokens writes to."""
    rows, (pairs, size), losses = len(tokens.offsets) - 1, tokens.log_ratios.shape, len(tokens.sizes)
    return Found(
        sums=np.empty((2 + pairs, rows)),
        counts=np.zeros((1 + pairs, 2, BINS + 1), dtype=np.int64),
        outside=np.empty((1 + pairs, size + 1), dtype=np.int64),
        taken=np.zeros(1 + pairs, dtype=np.int64),
        buckets=np.empty((4, BUCKETS, rows)),
        inside=np.empty((pairs, len(SUMS), rows)),
        keys=np.empty((pairs, 2, rows), dtype=np.int64),
        signed=np.empty((losses, 1 + pairs, 2, rows)),
    )


def found_together(parts: Sequence[Found]) -> Found:
    """Return what was found of the rollouts of several walks, one after the other, but for the places of tokens."""
    rows = {name: np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in _BY_ROLLOUT}
    return parts[0]._replace(counts=np.sum([part.counts for part in parts], axis=0), **rows)


@compiled()
def walk(tokens: Any, limits: Any, rows: Any, scratch: Any, found: Any) -> None:
    """Look at every token.

    Args:
        tokens: ``Tokens``.
        limits: ``Limits``.
        rows: the first rollout of each block, and N: int64, rising.
        scratch: ``Scratch`` for the largest block.
        found: ``Found``, to write to.
    """
    for block in range(len(rows) - 1):
        row, start, stop = rows[block], tokens.offsets[rows[block]], tokens.offsets[rows[block + 1]]
        offsets = scratch.offsets[: rows[block + 1] - row + 1]
        _shift(offsets, tokens.offsets[row:], start)
        flags = scratch.flags[: stop - start]
        _look(tokens, limits, row, start, offsets, flags, scratch.bins[: stop - start], found)
        _sum(tokens, limits, row, start, offsets, flags, scratch, found)


@compiled()
def _look(tokens: Any, limits: Any, row: int, start: int, offsets: Any, flags: Any, bins: Any, found: Any) -> None:
    """Sum, count and compare all tokens of a block."""
    stop, last = start + len(flags), row + len(offsets) - 1
    inference = tokens.inference[start:stop]
    _sum_logs(found.sums, row, offsets, tokens.trainer[start:stop], inference, tokens.log_ratios[0, start:stop])
    fill_gap_bins(bins, inference, tokens.log_ratios[0, start:stop], limits.certain[0])
    count(found.counts[0], bins)
    _begin(flags, tokens.unknown[start:stop])
    for pair in range(len(tokens.log_ratios)):
        log_ratio = tokens.log_ratios[pair, start:stop]
        if pair > 0:
            sums(found.sums[2 + pair, row:last], offsets, log_ratio)
        fill_bins(bins, log_ratio)
        count(found.counts[1 + pair], bins)
        flag_outside(flags, log_ratio, limits.low[pair], limits.high[pair])
        _take_above(found.outside[1 + pair], found.taken, 1 + pair, start, log_ratio, limits.floors[pair])
    _take_flagged(found.outside[0], found.taken, start, flags)


@compiled()
def _shift(found: Any, offsets: Any, start: int) -> None:
    """Write offsets less ``start``."""
    for row in range(len(found)):
        found[row] = offsets[row] - start


@compiled()
def _begin(flags: Any, unknown: Any) -> None:
    """Set the flags [P] that are set already; ``unknown`` is [0] where none are."""
    for token in range(len(flags)):
        flags[token] = len(unknown) > 0 and unknown[token]


@compiled()
def _times_size(found: Any, values: Any, factors: Any) -> None:
    """Write each value [P] times the size of its factor."""
    for token in range(len(found)):
        found[token] = values[token] * abs(factors[token])


@compiled()
def _weigh(found: Any, values: Any, excess: Any) -> None:
    """Write each value [P] times its weight, which is given less 1."""
    for token in range(len(found)):
        found[token] = excess[token] * values[token] + values[token]


@compiled()
def _take_flagged(places: Any, taken: Any, start: int, flags: Any) -> None:
    """Append the places of the flags [P] that are set."""
    place = taken[0]
    for first in range(0, len(flags), _LOOK):
        some = flags[first : first + _LOOK]
        if _any(some):
            for token in range(len(some)):
                places[place] = start + first + token
                place += some[token]
    taken[0] = place


@compiled()
def _take_above(places: Any, taken: Any, at: int, start: int, values: Any, floor: Any) -> None:
    """Append the places of the values [P] above a floor."""
    place = taken[at]
    for first in range(0, len(values), _LOOK):
        some = values[first : first + _LOOK]
        if _any_above(some, floor):
            for token in range(len(some)):
                places[place] = start + first + token
                place += some[token] > floor
    taken[at] = place


@compiled()
def _any(flags: Any) -> bool:
    found = False
    for token in range(len(flags)):
        found |= flags[token]
    return found


@compiled()
def _any_above(values: Any, floor: Any) -> bool:
    found = False
    for token in range(len(values)):
        found |= values[token] > floor
    return found


@compiled(LANES)
def _sum_logs(found: Any, row: int, offsets: Any, trainer: Any, inference: Any, log_ratio: Any) -> None:
    """Write the sums of three columns [P] over each rollout of a block, whose first one stands at ``row``."""
    for rollout in range(len(offsets) - 1):
        p = q = d = 0.0
        for token in tokens_of(offsets, rollout):
            p += trainer[token]
            q += inference[token]
            d += log_ratio[token]
        at = row + rollout
        found[0, at], found[1, at], found[2, at] = p, q, d


@compiled()
def _sum(tokens: Any, limits: Any, row: int, start: int, offsets: Any, flags: Any, scratch: Any, found: Any) -> None:
    """Sum the tokens of a block that are inside."""
    size, stop = len(flags), start + len(flags)
    codes, certainty, excess = scratch.codes[:size], scratch.certainty[:size], scratch.excess[:size]
    k3, free = scratch.k3[:size], scratch.free[:size]
    fill_codes(codes, tokens.inference[start:stop], flags, limits.edges)
    fill_certainty(certainty, tokens.policy[start:stop])
    for loss in range(len(tokens.sizes)):
        size_of, signal = tokens.sizes[loss, start:stop], tokens.signals[loss, start:stop]
        sum_by_sign(found.signed[loss, 0], row, offsets, codes, certainty, size_of, signal)
    for pair in range(len(tokens.log_ratios)):
        log_ratio = tokens.log_ratios[pair, start:stop]
        fill_excess(excess, k3, log_ratio)
        sum_inside(found.inside[pair], row, offsets, codes, log_ratio, excess, k3, certainty)
        find_extremes(found.keys[pair], row, offsets, codes, log_ratio)
        if pair == 0 and len(tokens.advantage):
            _times_size(free, certainty, tokens.advantage[start:stop])
            sum_buckets(found.buckets, row, offsets, codes, free, k3, log_ratio)
        elif pair == 0:
            sum_buckets(found.buckets, row, offsets, codes, certainty, k3, log_ratio)
        if len(tokens.sizes) and limits.weighting[pair]:
            _weigh(free, certainty, excess)
            for loss in range(len(tokens.sizes)):
                size_of, signal = tokens.sizes[loss, start:stop], tokens.signals[loss, start:stop]
                sum_by_sign(found.signed[loss, 1 + pair], row, offsets, codes, free, size_of, signal)
