"""Columns of the applied weights of a recipe: what becomes of the tokens of each rollout."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from iscope.ledger import histogram
from iscope.ledger.bulk import Bulk
from iscope.ledger.histogram import Counts
from iscope.ledger.kernels.applied import Kept, Totals, Weights, add_applied, move_applied
from iscope.ledger.split import Columns, Split
from iscope.recipes.model import BoundRecipe, Pair
from iscope.replay.correction import Correction
from iscope.replay.segments import Array, Segments, on_cpu
from iscope.replay.weights import Weight

_WEIGHTS = ("weight_sum", "weight_sq", "excess_sum", "excess_sq")
_LOGS = ("log_weight_min", "log_weight_max")
_K3 = ("k3_kept", "k3_masked")
_TOKENS = ("outside", "kept", "modified", "truncated_low", "truncated_high")

GRADIENT = "weighted"
"""abs(w) (1 - p) summed over the tokens outside the screen, float64 [N]: a step on the way, no column of the ledger."""

_COLUMNS = (*_WEIGHTS, *_LOGS, *_TOKENS[:3], *_K3, *_TOKENS[3:], GRADIENT)


def measure_applied(split: Split, recipe: BoundRecipe, correction: Correction) -> Columns:
    """Sum the applied weights of each rollout [N], count what is done to its tokens, and sum their k3 in nats.

    Args:
        split: the tokens.
        recipe: the recipe.
        correction: what it makes of the tokens outside the screen.

    Returns:
        Its columns, and ``GRADIENT``.
    """
    pair = split.rest.resolve(recipe.weight.pair)
    start = _inside(split.bulk, correction, pair)
    found = (_add if on_cpu(split.bulk.n) else _add_on_device)(start, split, correction, pair)
    return {name: found[name] for name in _COLUMNS}


def count_applied(split: Split, recipe: BoundRecipe, correction: Correction, kept: Tensor) -> Counts:
    """Histogram of the applied log-weights.

    Args:
        split: the tokens.
        recipe: the recipe.
        correction: what it makes of the tokens outside the screen.
        kept: tokens of each rollout that it keeps, int64 [N].
    """
    if not correction.weight.per_token:
        return _counts_by_rollout(split, correction, kept)
    pair = split.rest.resolve(recipe.weight.pair)
    return (_counts if on_cpu(kept) else _counts_on_device)(split, correction, pair)


def _inside(bulk: Bulk, correction: Correction, pair: Pair) -> Columns:
    """The same columns of the tokens inside the screen, where only a rollout's fate matters."""
    n, weight = bulk.n, correction.weight
    sums = _plain(bulk, pair) if weight.per_token else _weighted_alike(n, correction)
    none = torch.zeros_like(n)
    sums |= {
        "kept": n,
        "modified": none if weight.per_token else n * (weight.low | weight.high),
        "k3_kept": bulk.pairs[pair]["k3_sum"],
        "k3_masked": none.double(),
        "truncated_low": none if weight.per_token else n * weight.low,
        "truncated_high": none if weight.per_token else n * weight.high,
    }
    return sums if correction.keep_rollout is None else _reject(sums, n, ~correction.keep_rollout)


def _plain(bulk: Bulk, pair: Pair) -> Columns:
    """Of tokens whose weight is their ratio."""
    n, sums = bulk.n, bulk.pairs[pair]
    excess, excess_sq = sums["excess_sum"], sums["excess_sq"]
    return {
        "weight_sum": n + excess,
        "weight_sq": n + 2 * excess + excess_sq,
        "excess_sum": excess,
        "excess_sq": excess_sq,
        "log_weight_min": sums["log_ratio_min"],
        "log_weight_max": sums["log_ratio_max"],
        "outside": torch.zeros_like(n),
    }


def _weighted_alike(n: Tensor, correction: Correction) -> Columns:
    """Of tokens that have the weight of their rollout."""
    log = correction.weight.log
    each, value = correction.weight.excess_of(log), correction.weight.sign * log.exp()
    return {
        "weight_sum": n * value,
        "weight_sq": n * value * value,
        "excess_sum": n * each,
        "excess_sq": n * each * each,
        "log_weight_min": log.masked_fill(n == 0, float("inf")),
        "log_weight_max": log.masked_fill(n == 0, float("-inf")),
        "outside": n * ((value < 0.5) | (value > 2.0)),
    }


def _reject(inside: Columns, n: Tensor, lost: Tensor) -> Columns:
    """The same with the weight of every token of the lost rollouts at 0."""
    count = n.double()
    zero = torch.zeros_like(count)
    instead = {
        "weight_sum": zero,
        "weight_sq": zero,
        "excess_sum": -count,
        "excess_sq": count,
        "log_weight_min": torch.where(n > 0, float("-inf"), float("inf")).double(),
        "log_weight_max": torch.full_like(zero, float("-inf")),
        "outside": n,
        "kept": torch.zeros_like(n),
        "modified": n,
        "k3_kept": zero,
        "k3_masked": inside["k3_kept"],
    }
    return inside | {name: torch.where(lost, values, inside[name]) for name, values in instead.items()}


def _add(start: Columns, split: Split, correction: Correction, pair: Pair) -> Columns:
    """Add the tokens outside the screen."""
    rest = split.rest
    totals = Totals(
        weights=_table(start, _WEIGHTS),
        logs=_table(start, _LOGS),
        k3=_table(start, _K3),
        tokens=_table(start, _TOKENS),
        gradient=np.zeros(rest.segments.rows),
    )
    k3, uncertainty = rest.k3(pair).numpy(), rest.uncertainty.numpy()
    add_applied(
        totals,
        rest.segments.offsets.numpy(),
        _weights(rest.segments, correction.weight),
        _kept(correction),
        k3,
        uncertainty,
    )
    found: Columns = {GRADIENT: torch.from_numpy(totals.gradient)}
    for names, table in zip((_WEIGHTS, _LOGS, _K3, _TOKENS), totals[:-1], strict=True):
        found |= dict(zip(names, torch.from_numpy(table), strict=True))
    return found


def _table(columns: Columns, names: tuple[str, ...]) -> Array:
    table: Array = torch.stack([columns[name] for name in names]).numpy()
    return table


def _weights(segments: Segments, weight: Weight) -> Weights:
    excess = weight.excess_of(weight.log) if weight.excess is None else weight.excess
    values = [weight.log, weight.log.exp(), excess, weight.low, weight.high]
    if not weight.per_token:
        values = [segments.expand(each) for each in values]
    log, size, *others = (each.contiguous().numpy() for each in values)
    return Weights(log, size, float(weight.sign), *others)


def _kept(correction: Correction) -> Kept:
    return Kept(*map(_flags, (correction.keep_token, correction.keep_rollout)))


def _flags(flags: Tensor | None) -> Array:
    return np.empty(0, dtype=np.bool_) if flags is None else flags.contiguous().numpy()


def _add_on_device(start: Columns, split: Split, correction: Correction, pair: Pair) -> Columns:
    """The same on any device."""
    rest, weight, segments = split.rest, correction.weight, split.rest.segments
    keep, k3 = correction.keep(rest), rest.k3(pair)
    log, excess, low, high = weight.log, weight.excess, weight.low, weight.high
    if excess is None:
        excess = weight.excess_of(log)
        log, excess, low, high = (segments.expand(values) for values in (log, excess, low, high))
    log, excess = log.masked_fill(~keep, float("-inf")), excess.masked_fill(~keep, -1.0)
    size = log.exp()
    added = {
        "weight_sum": segments.sum(weight.sign * size),
        "weight_sq": segments.sum(size * size),
        "excess_sum": segments.sum(excess),
        "excess_sq": segments.sum(excess * excess),
        "outside": segments.count((excess < -0.5) | (excess > 1.0)),
        "kept": segments.count(keep),
        "modified": segments.count(low | high | ~keep),
        "truncated_low": segments.count(low),
        "truncated_high": segments.count(high),
        "k3_kept": segments.sum(k3.masked_fill(~keep, 0.0)),
        "k3_masked": segments.sum(k3.masked_fill(keep, 0.0)),
    }
    columns = {name: start[name] + values for name, values in added.items()}
    columns["log_weight_min"] = torch.minimum(start["log_weight_min"], segments.min(log))
    columns["log_weight_max"] = torch.maximum(start["log_weight_max"], segments.max(log))
    return columns | {GRADIENT: segments.sum(size * rest.uncertainty)}


def _counts(split: Split, correction: Correction, pair: Pair) -> Counts:
    rest, kept = split.rest, _kept(correction)
    counts, log = split.raw[pair].copy(), correction.weight.log.contiguous()
    offsets, d = rest.segments.offsets.numpy(), rest.log_ratio(pair).numpy()
    whole = rest if kept.rollouts.all() else rest.rollouts  # it is read of rejected rollouts only
    all_offsets, all_d = whole.segments.offsets.numpy(), whole.log_ratio(pair).numpy()
    move_applied(counts, offsets, d, log.numpy(), kept, all_offsets, all_d)
    return counts


def _counts_on_device(split: Split, correction: Correction, pair: Pair) -> Counts:
    """The same on any device."""
    rest, keep = split.rest, correction.keep(split.rest)
    counts, log, d = split.raw[pair], correction.weight.log, rest.log_ratio(pair)
    if correction.keep_rollout is None:
        return counts - _counts_of(d) + _counts_of_weights(log.masked_fill(~keep, float("-inf")))
    whole, stays = rest.rollouts, rest.segments.expand(correction.keep_rollout)
    lost = whole.segments.expand(~correction.keep_rollout)
    counts = counts - _counts_of(d[stays]) - _counts_of(whole.log_ratio(pair)[lost])
    counts += _counts_of_weights(log.masked_fill(~keep, float("-inf"))[stays])
    counts[histogram.ZERO_WEIGHT] += int(lost.sum())
    return counts


def _counts_of(log_ratio: Tensor) -> Counts:
    return histogram.count(histogram.bins_of(log_ratio))


def _counts_of_weights(log: Tensor) -> Counts:
    bins = histogram.bins_of(log).masked_fill_(log == float("-inf"), histogram.ZERO_WEIGHT)
    return histogram.count(bins)


def _counts_by_rollout(split: Split, correction: Correction, kept: Tensor) -> Counts:
    """The same where every kept token of a rollout has the rollout's weight."""
    bins = histogram.bins_of(correction.weight.log).long()
    counts = kept.new_zeros(histogram.BINS + 1).index_add_(0, bins, kept)
    counts[histogram.ZERO_WEIGHT] = (split.bulk.n + split.rest.segments.lengths - kept).sum()
    found: Counts = counts.cpu().numpy()
    return found
