"""The measured columns of a ledger row: what is summed per rollout for a policy pair and for a recipe."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from iscope.ledger import histogram
from iscope.ledger.bulk import Bulk
from iscope.ledger.gradient import by_sign, can_differentiate
from iscope.ledger.histogram import Counts
from iscope.recipes.model import BoundRecipe, Pair
from iscope.replay.correction import Correction, correct
from iscope.replay.losses import loss_terms
from iscope.replay.segments import Segments
from iscope.replay.view import EXPONENT_LIMIT, TokenView

Columns = dict[str, Tensor]


@dataclass(frozen=True)
class Split:
    """The tokens of a batch in two: those that no recipe touches, summed up, and the others.

    Attributes:
        bulk: sums over the tokens inside the screen.
        rest: the tokens outside.
        raw: histogram of the log-ratios of all tokens, by pair.
    """

    bulk: Bulk
    rest: TokenView
    raw: dict[Pair, Counts]


def measure_pair(split: Split, pair: Pair) -> Columns:
    """Sums of a pair's log-ratio d and ratio rho over each rollout [N]; float64 in nats, int64 in tokens.

    ``excess`` is rho - 1: moments about 1 keep their digits where ratios are close to it, plain ones elsewhere.
    """
    inside, rest, n = split.bulk.pairs[pair], split.rest, split.bulk.n
    segments, exact, excess, weight = rest.segments, rest.exact(pair), rest.excess(pair), rest.weight(pair)
    magnitude, ratio, d = exact.abs(), rest.ratio(pair), rest.log_ratio(pair)
    return {
        "log_ratio_sum": rest.rollouts.log_ratio_sum(pair),
        "log_ratio_sq": inside["log_ratio_sq"] + segments.sum(exact * exact),
        "log_ratio_min": torch.minimum(inside["log_ratio_min"], segments.min(d).double()),
        "log_ratio_max": torch.maximum(inside["log_ratio_max"], segments.max(d).double()),
        "abs_sum": inside["abs_sum"] + segments.sum(magnitude),
        "exp_abs_sum": inside["exp_abs_sum"] + segments.sum(magnitude.exp()),
        "weight_sum": n + inside["excess_sum"] + segments.sum(weight),
        "weight_sq": n + 2 * inside["excess_sum"] + inside["excess_sq"] + segments.sum(weight * weight),
        "excess_sum": inside["excess_sum"] + segments.sum(excess),
        "excess_sq": inside["excess_sq"] + segments.sum(excess * excess),
        "k3_sum": inside["k3_sum"] + segments.sum(rest.k3(pair)),
        "below_half": segments.count(ratio < 0.5),
        "above_two": segments.count(ratio > 2.0),
        "at_limit": segments.count(magnitude >= EXPONENT_LIMIT),
    }


def measure_recipe(split: Split, recipe: BoundRecipe, base: int) -> tuple[Columns, Counts | None]:
    """Measure a recipe on a batch.

    Args:
        split: the tokens.
        recipe: the recipe.
        base: index of its uncorrected loss among the plan's.

    Returns:
        Its columns [N], and the histogram of the applied weights where they differ within a rollout. A recipe that
        weights and rejects whole rollouts needs neither token sums nor a histogram: all follows from ``log_weight``.
    """
    rest = split.rest
    correction = correct(rest, recipe)
    if not correction.per_token and recipe.loss.linear_in_weight:
        return _rollout_columns(correction), None
    keep = correction.keep(rest)
    log, excess = _applied(rest, correction, keep)
    inside = _inside(split.bulk, correction, rest.resolve(recipe.weight.pair))
    columns = _weight_columns(rest.segments, inside, log, excess, correction.weight.sign)
    columns |= _decision_columns(split, recipe, correction, keep)
    if can_differentiate(rest, recipe.loss):
        columns |= _gradient(split, recipe, correction, base)
    return columns, _applied_counts(split, recipe, correction, keep, log)


def _rollout_columns(correction: Correction) -> Columns:
    weight = correction.weight
    log = weight.log
    if correction.keep_rollout is not None:
        log = log.masked_fill(~correction.keep_rollout, float("-inf"))
    columns = {"log_weight": log, "truncated": weight.high.to(torch.int8) - weight.low.to(torch.int8)}
    for index, rejection in enumerate(correction.rejections):
        low, high = rejection.low.to(torch.int8), rejection.high.to(torch.int8)
        columns[f"rejected{index}"] = high - low + 2 * (high & low)
    if correction.keep_rollout is not None:
        columns["kept"] = correction.keep_rollout
    return columns


def _applied(rest: TokenView, correction: Correction, keep: Tensor) -> tuple[Tensor, Tensor]:
    """Log of the size of the applied weight [P], -inf where rejected, and the applied weight - 1."""
    log, excess = correction.weight.log, correction.weight.excess
    if excess is None:
        log, excess = rest.segments.expand(log), rest.segments.expand(correction.weight.excess_of(log))
    return log.masked_fill(~keep, float("-inf")), excess.masked_fill(~keep, -1.0)


def _inside(bulk: Bulk, correction: Correction, pair: Pair) -> Columns:
    """Sums of the applied weights over the tokens inside the screen, where only a rollout's fate matters."""
    n = bulk.n
    if correction.weight.per_token:
        sums = bulk.pairs[pair]
        excess, excess_sq = sums["excess_sum"], sums["excess_sq"]
        weight, weight_sq = n + excess, n + 2 * excess + excess_sq
        low, high = sums["log_ratio_min"], sums["log_ratio_max"]
        outside = torch.zeros_like(n)
    else:
        log = correction.weight.log
        each, value = correction.weight.excess_of(log), correction.weight.sign * log.exp()
        excess, excess_sq, weight, weight_sq = n * each, n * each * each, n * value, n * value * value
        low = log.masked_fill(n == 0, float("inf"))
        high = log.masked_fill(n == 0, float("-inf"))
        outside = n * ((value < 0.5) | (value > 2.0))
    inside = {
        "weight_sum": weight,
        "weight_sq": weight_sq,
        "excess_sum": excess,
        "excess_sq": excess_sq,
        "log_weight_min": low,
        "log_weight_max": high,
        "outside": outside,
    }
    return inside if correction.keep_rollout is None else _reject(inside, n, ~correction.keep_rollout)


def _reject(inside: Columns, n: Tensor, lost: Tensor) -> Columns:
    """The same sums with the weight of every token of the lost rollouts at 0."""
    count = n.double()
    zero = torch.zeros_like(count)
    edge = torch.where(n > 0, float("-inf"), float("inf")).double()
    instead = {
        "weight_sum": zero,
        "weight_sq": zero,
        "excess_sum": -count,
        "excess_sq": count,
        "log_weight_min": edge,
        "log_weight_max": torch.full_like(zero, float("-inf")),
        "outside": n,
    }
    return {name: torch.where(lost, instead[name], values) for name, values in inside.items()}


def _weight_columns(segments: Segments, inside: Columns, log: Tensor, excess: Tensor, sign: int) -> Columns:
    value = log.exp() if sign > 0 else -log.exp()
    return {
        "weight_sum": inside["weight_sum"] + segments.sum(value),
        "weight_sq": inside["weight_sq"] + segments.sum(value * value),
        "excess_sum": inside["excess_sum"] + segments.sum(excess),
        "excess_sq": inside["excess_sq"] + segments.sum(excess * excess),
        "log_weight_min": torch.minimum(inside["log_weight_min"], segments.min(log)),
        "log_weight_max": torch.maximum(inside["log_weight_max"], segments.max(log)),
        "outside": inside["outside"] + segments.count((excess < -0.5) | (excess > 1.0)),
    }


def _decision_columns(split: Split, recipe: BoundRecipe, correction: Correction, keep: Tensor) -> Columns:
    """Counts of kept, cut and rejected tokens, and k3 of the kept and of the rejected ones."""
    rest, n, weight = split.rest, split.bulk.n, correction.weight
    segments, pair = rest.segments, rest.resolve(recipe.weight.pair)
    k3, k3_inside = rest.k3(pair), split.bulk.pairs[pair]["k3_sum"]
    row_kept = torch.ones_like(n, dtype=torch.bool) if correction.keep_rollout is None else correction.keep_rollout
    row_changed = ~row_kept if weight.per_token else ~row_kept | weight.low | weight.high
    changed = _of_tokens(segments, weight.low | weight.high, weight.per_token) | ~keep
    columns = {
        "kept": n * row_kept + segments.count(keep),
        "modified": n * row_changed + segments.count(changed),
        "k3_kept": k3_inside.masked_fill(~row_kept, 0.0) + segments.sum(k3.masked_fill(~keep, 0.0)),
        "k3_masked": k3_inside.masked_fill(row_kept, 0.0) + segments.sum(k3.masked_fill(keep, 0.0)),
        "truncated_low": _count(split, weight.low, weight.per_token),
        "truncated_high": _count(split, weight.high, weight.per_token),
    }
    for index, rejection in enumerate(correction.rejections):
        columns[f"rejected{index}_low"] = _count(split, rejection.low, rejection.per_token)
        columns[f"rejected{index}_high"] = _count(split, rejection.high, rejection.per_token)
    return columns


def _count(split: Split, flags: Tensor, per_token: bool) -> Tensor:
    """Flagged tokens of each rollout; a flag of a rollout flags all its tokens."""
    if per_token:
        return split.rest.segments.count(flags)
    return flags * (split.bulk.n + split.rest.segments.lengths)


def _of_tokens(segments: Segments, flags: Tensor, per_token: bool) -> Tensor:
    return flags if per_token else segments.expand(flags)


def _gradient(split: Split, recipe: BoundRecipe, correction: Correction, base: int) -> Columns:
    """Gradient by sign: inside the screen the uncorrected one, times the plain weight of the rule."""
    rest, weight = split.rest, correction.weight
    terms = loss_terms(rest, recipe, correction)
    found = by_sign(rest, recipe.loss, terms.coefficient.abs() * rest.uncertainty)
    pair = rest.resolve(recipe.weight.pair) if weight.per_token else None
    inside = split.bulk.gradients.get((base, pair))
    if inside is None:
        return found
    for name, total in inside.items():
        kept = total if weight.per_token else total * weight.log.exp()
        if correction.keep_rollout is not None:
            kept = kept.masked_fill(~correction.keep_rollout, 0.0)
        found[name] = found[name] + kept
    return found


def _applied_counts(split: Split, recipe: BoundRecipe, correction: Correction, keep: Tensor, log: Tensor) -> Counts:
    """Histogram of the applied log-weights."""
    rest, weight = split.rest, correction.weight
    if not weight.per_token:
        return _counts_by_rollout(split, correction, keep)
    pair = rest.resolve(recipe.weight.pair)
    counts, d = split.raw[pair], rest.log_ratio(pair)
    if correction.keep_rollout is None or bool(correction.keep_rollout.all()):
        before: Counts = rest.once(("counts", pair), lambda: _counts_of(d))
        return counts - before + histogram.count(_weight_bins(log))
    whole, kept = rest.rollouts, rest.segments.expand(correction.keep_rollout)
    lost = whole.segments.expand(~correction.keep_rollout)
    counts = counts - _counts_of(d[kept]) - _counts_of(whole.log_ratio(pair)[lost])
    counts += histogram.count(_weight_bins(log[kept]))
    counts[histogram.ZERO_WEIGHT] += int(lost.sum())
    return counts


def _counts_of(log_ratio: Tensor) -> Counts:
    return histogram.count(histogram.bins_of(log_ratio))


def _counts_by_rollout(split: Split, correction: Correction, keep: Tensor) -> Counts:
    """The same where every kept token of a rollout has the rollout's weight."""
    n = split.bulk.n if correction.keep_rollout is None else split.bulk.n * correction.keep_rollout
    kept = n + split.rest.segments.count(keep)
    bins = histogram.bins_of(correction.weight.log).long()
    counts = kept.new_zeros(histogram.BINS + 1).index_add_(0, bins, kept)
    counts[histogram.ZERO_WEIGHT] = (split.bulk.n + split.rest.segments.lengths - kept).sum()
    found: Counts = counts.cpu().numpy()
    return found


def _weight_bins(log: Tensor) -> Tensor:
    return histogram.bins_of(log).masked_fill_(log == float("-inf"), histogram.ZERO_WEIGHT)
