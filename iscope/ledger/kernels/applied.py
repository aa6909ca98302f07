"""What the applied weights of one recipe give, over the tokens outside the screen."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from iscope.ledger.histogram import ZERO_WEIGHT
from iscope.ledger.kernels.bins import bin_of_value, fill_bins
from iscope.replay.compiled import LANES, compiled, tokens_of

Array = np.ndarray[Any, Any]


class Weights(NamedTuple):
    """Weights of tokens before any rejection, as ``iscope.replay.weights.Weight`` has them.

    Attributes:
        log: log of their size, float64 [P].
        size: float64 [P].
        sign: 1 or -1, of all of them.
        excess: weight - 1, float64 [P].
        low: bool [P], raised to the lower bound.
        high: bool [P], cut to the upper bound.
    """

    log: Array
    size: Array
    sign: float
    excess: Array
    low: Array
    high: Array


class Kept(NamedTuple):
    """What no filter rejected.

    Attributes:
        tokens: bool [P]; [0] where no filter rejects tokens.
        rollouts: bool [N]; [0] where none rejects rollouts.
    """

    tokens: Array
    rollouts: Array


class Totals(NamedTuple):
    """Per rollout, of the tokens inside the screen before, and of all tokens after.

    Attributes:
        weights: sum of the applied weight w, of w^2, of w - 1 and of (w - 1)^2, float64 [4, N].
        logs: smallest and largest log of abs(w), float64 [2, N].
        k3: nats, of kept and of rejected tokens, float64 [2, N].
        tokens: how many have w outside [1/2, 2], are kept, changed at all, and raised and cut to a bound, int64 [5, N].
        gradient: abs(w) (1 - p) summed, float64 [N].
    """

    weights: Array
    logs: Array
    k3: Array
    tokens: Array
    gradient: Array


@compiled()
def add_applied(totals: Any, offsets: Any, weights: Any, kept: Any, k3: Any, uncertainty: Any) -> None:
    """Add tokens to the totals of their rollouts.

    Args:
        totals: ``Totals``, to write to.
        offsets: int64 [N + 1].
        weights: ``Weights``.
        kept: ``Kept``.
        k3: float64 [P], nats.
        uncertainty: 1 - p, float64 [P].
    """
    keep = np.empty(len(k3), dtype=np.bool_)
    _fill_keep(keep, offsets, kept)
    _sum_weights(totals, offsets, weights, keep, uncertainty)
    _sum_k3(totals.k3, offsets, keep, k3)
    _find_range(totals.logs, offsets, keep, weights.log)
    _count_outside(totals.tokens[0], offsets, keep, weights.excess)
    _count_decisions(totals.tokens[1:], offsets, keep, weights.low, weights.high)


@compiled()
def _fill_keep(keep: Any, offsets: Any, kept: Any) -> None:
    """Write whether a token and its rollout are kept, bool [P]."""
    for token in range(len(keep)):
        keep[token] = _is_set(kept.tokens, token)
    for row in range(len(kept.rollouts)):
        if not kept.rollouts[row]:
            keep[offsets[row] : offsets[row + 1]] = False


@compiled(LANES)
def _sum_weights(totals: Any, offsets: Any, weights: Any, keep: Any, uncertainty: Any) -> None:
    for row in range(len(offsets) - 1):
        total = squares = gradient = excess_sum = excess_sq = 0.0
        for token in tokens_of(offsets, row):
            size = weights.size[token] if keep[token] else 0.0
            excess = weights.excess[token] if keep[token] else -1.0
            total += size
            squares += size * size
            gradient += size * uncertainty[token]
            excess_sum += excess
            excess_sq += excess * excess
        totals.weights[0, row] += weights.sign * total
        totals.weights[1, row] += squares
        totals.weights[2, row] += excess_sum
        totals.weights[3, row] += excess_sq
        totals.gradient[row] += gradient


@compiled(LANES)
def _sum_k3(found: Any, offsets: Any, keep: Any, k3: Any) -> None:
    for row in range(len(offsets) - 1):
        kept = lost = 0.0
        for token in tokens_of(offsets, row):
            kept += k3[token] if keep[token] else 0.0
            lost += 0.0 if keep[token] else k3[token]
        found[0, row] += kept
        found[1, row] += lost


@compiled()
def _find_range(found: Any, offsets: Any, keep: Any, logs: Any) -> None:
    """Smallest and largest; NaN where one is."""
    for row in range(len(offsets) - 1):
        lowest, highest = found[0, row], found[1, row]
        for token in tokens_of(offsets, row):
            log = logs[token] if keep[token] else -math.inf
            lowest = log if log < lowest or log != log else lowest
            highest = log if log > highest or log != log else highest
        found[0, row], found[1, row] = lowest, highest


@compiled()
def _count_outside(found: Any, offsets: Any, keep: Any, excess: Any) -> None:
    """Count weights outside [1/2, 2]; a rejected one is 0."""
    for row in range(len(offsets) - 1):
        outside = 0
        for token in tokens_of(offsets, row):
            outside += (not keep[token]) | (excess[token] < -0.5) | (excess[token] > 1.0)
        found[row] += outside


@compiled()
def _count_decisions(found: Any, offsets: Any, keep: Any, low: Any, high: Any) -> None:
    """Count the kept, the changed, the raised and the cut."""
    for row in range(len(offsets) - 1):
        count = changed = raised = cut = 0
        for token in tokens_of(offsets, row):
            count += keep[token]
            changed += (not keep[token]) | low[token] | high[token]
            raised += low[token]
            cut += high[token]
        found[0, row] += count
        found[1, row] += changed
        found[2, row] += raised
        found[3, row] += cut


@compiled()
def move_applied(
    counts: Any, offsets: Any, log_ratio: Any, log: Any, kept: Any, whole_offsets: Any, whole_log_ratio: Any
) -> None:
    """Turn a histogram of all log-ratios into one of the applied weights, where these are one per token.

    Args:
        counts: int64 [BINS + 1], to write to.
        offsets: int64 [N + 1], of the tokens outside the screen.
        log_ratio: d of those [P], nats.
        log: log of the size of their weights before any rejection, float64 [P].
        kept: ``Kept`` of those.
        whole_offsets: int64 [N + 1], of all tokens.
        whole_log_ratio: d of those; read of rejected rollouts only.
    """
    keep, bins = np.empty(len(log), dtype=np.bool_), np.empty(len(log), dtype=np.int16)
    _fill_keep(keep, offsets, kept)
    fill_bins(bins, log_ratio)
    _count_each(counts, bins, -1)
    fill_bins(bins, log)
    for token in range(len(log)):
        bins[token] = bins[token] if keep[token] and log[token] != -math.inf else ZERO_WEIGHT
    _count_each(counts, bins, 1)
    for row in range(len(kept.rollouts)):
        if not kept.rollouts[row]:  # those inside the screen have gone, too
            _move_to_zero(counts, log_ratio[offsets[row] : offsets[row + 1]], -1)
            _move_to_zero(counts, whole_log_ratio[whole_offsets[row] : whole_offsets[row + 1]], 1)


@compiled()
def _count_each(counts: Any, bins: Any, sign: int) -> None:
    for token in range(len(bins)):
        counts[np.uint64(bins[token])] += sign


@compiled()
def _move_to_zero(counts: Any, log_ratio: Any, sign: int) -> None:
    """Move tokens from the bins of their log-ratios to that of the weight 0, or back."""
    for token in range(len(log_ratio)):
        counts[bin_of_value(log_ratio[token])] -= sign
        counts[ZERO_WEIGHT] += sign


@compiled()
def _is_set(flags: Any, place: int) -> bool:
    """Whether a flag is set; all are where there are none."""
    return bool(len(flags) == 0 or flags[place])
