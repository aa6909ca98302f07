"""The measured columns of a ledger row: what is summed per rollout for a policy pair and for a recipe."""

from __future__ import annotations

import torch
from torch import Tensor

from iscope.ledger import histogram
from iscope.ledger.histogram import Counts
from iscope.recipes.model import BoundRecipe, Level, Loss, Pair
from iscope.replay.correction import Correction, correct
from iscope.replay.losses import base_coefficient, loss_terms, signal_of
from iscope.replay.segments import Segments
from iscope.replay.view import EXPONENT_LIMIT, TokenView

Columns = dict[str, Tensor]


def measure_pair(view: TokenView, pair: Pair) -> Columns:
    """Sums of a pair's log-ratio d and ratio rho over each rollout [N]; float64 in nats, int64 in tokens.

    ``excess`` is rho - 1: moments about 1 keep their digits where ratios are close to it, plain ones elsewhere.
    """
    segments, exact, excess, weight = view.segments, view.exact(pair), view.excess(pair), view.weight(pair)
    magnitude = exact.abs()
    ratio = view.ratio(pair)
    return {
        "log_ratio_sum": view.log_ratio_sum(pair),
        "log_ratio_sq": segments.sum(exact * exact),
        "log_ratio_min": segments.min(view.log_ratio(pair)).double(),
        "log_ratio_max": segments.max(view.log_ratio(pair)).double(),
        "abs_sum": segments.sum(magnitude),
        "exp_abs_sum": segments.sum(magnitude.exp()),
        "weight_sum": segments.sum(weight),
        "weight_sq": segments.sum(weight * weight),
        "excess_sum": segments.sum(excess),
        "excess_sq": segments.sum(excess * excess),
        "k3_sum": segments.sum(view.k3(pair)),
        "below_half": segments.count(ratio < 0.5),
        "above_two": segments.count(ratio > 2.0),
        "at_limit": segments.count(magnitude >= EXPONENT_LIMIT),
    }


def measure_recipe(
    view: TokenView, recipe: BoundRecipe, bins: dict[Pair, Tensor], raw: dict[Pair, Counts]
) -> tuple[Columns, Counts | None]:
    """Measure a recipe on a view.

    Args:
        view: the tokens.
        recipe: the recipe.
        bins: histogram bin of each token's log-ratio, by pair.
        raw: the histogram of those, by pair.

    Returns:
        Its columns [N], and the histogram of the applied weights where they differ within a rollout. A recipe that
        weights and rejects whole rollouts needs neither token sums nor a histogram: all follows from ``log_weight``.
    """
    correction = correct(view, recipe)
    if not correction.per_token:
        return _rollout_columns(correction), None
    keep = correction.keep(view)
    log, excess = _applied(view, correction, keep)
    columns = _token_columns(view, recipe, correction, keep, log, excess)
    if can_differentiate(view, recipe.loss):
        terms = loss_terms(view, recipe, correction)
        columns |= gradient_by_sign(view, recipe.loss, terms.coefficient)
    return columns, _applied_counts(view, recipe, log, bins, raw)


def can_differentiate(view: TokenView, loss: Loss) -> bool:
    """Whether the view holds what a loss multiplies its scores with."""
    return (view.ref if loss.signal == "ref" else view.advantage) is not None


def can_replay(view: TokenView, recipe: BoundRecipe) -> bool:
    """Whether the view holds everything that a recipe looks at."""
    present = {"advantage": view.advantage, "ref_logprobs": view.ref}
    return all(present[name] is not None for name in recipe.needs)


def measure_base(view: TokenView, base: Loss) -> Columns:
    """Gradient of an uncorrected loss, by sign of the signal."""
    return gradient_by_sign(view, base, base_coefficient(view, base))


def gradient_by_sign(view: TokenView, loss: Loss, coefficient: Tensor) -> Columns:
    """g = sum of abs(c_t) (1 - p_t) over the tokens of each rollout whose signal is positive, and negative, [N].

    (1 - p_t) is the norm of the token's logit gradient within a factor of sqrt(2).
    """
    size, segments = coefficient.abs() * view.uncertainty, view.segments
    if loss.signal == "advantage" and not view.advantage_per_token:
        total, advantage = segments.sum(size), view.advantage
        assert advantage is not None
        return {
            "gradient_positive": total.masked_fill(advantage <= 0, 0.0),
            "gradient_negative": total.masked_fill(advantage >= 0, 0.0),
        }
    signal = signal_of(view, loss)
    return {
        "gradient_positive": segments.sum(size.masked_fill(signal <= 0, 0.0)),
        "gradient_negative": segments.sum(size.masked_fill(signal >= 0, 0.0)),
    }


def _rollout_columns(correction: Correction) -> Columns:
    weight = correction.weight
    log = weight.log
    if correction.keep_rollout is not None:
        log = log.masked_fill(~correction.keep_rollout, float("-inf"))
    columns = {"log_weight": log, "truncated": weight.high.to(torch.int8) - weight.low.to(torch.int8)}
    for index, rejection in enumerate(correction.rejections):
        columns[f"rejected{index}"] = rejection.high.to(torch.int8) - rejection.low.to(torch.int8)
    if correction.keep_rollout is not None:
        columns["kept"] = correction.keep_rollout
    return columns


def _token_columns(
    view: TokenView, recipe: BoundRecipe, correction: Correction, keep: Tensor, log: Tensor, excess: Tensor
) -> Columns:
    segments, weight, pair = view.segments, correction.weight, recipe.weight.pair
    lost, value = ~keep, log.exp()
    k3 = view.k3(pair)
    changed = _token_flags(segments, weight.low | weight.high, weight.per_token) | lost
    columns = {
        "kept": segments.count(keep),
        "modified": segments.count(changed),
        "weight_sum": segments.sum(value),
        "weight_sq": segments.sum(value * value),
        "excess_sum": segments.sum(excess),
        "excess_sq": segments.sum(excess * excess),
        "log_weight_min": segments.min(log),
        "log_weight_max": segments.max(log),
        "outside": segments.count((excess < -0.5) | (excess > 1.0)),
        "k3_kept": segments.sum(k3.masked_fill(lost, 0.0)),
        "k3_masked": segments.sum(k3.masked_fill(keep, 0.0)),
        "truncated_low": _count(segments, weight.low, weight.per_token),
        "truncated_high": _count(segments, weight.high, weight.per_token),
    }
    for index, rejection in enumerate(correction.rejections):
        columns[f"rejected{index}_low"] = _count(segments, rejection.low, rejection.per_token)
        columns[f"rejected{index}_high"] = _count(segments, rejection.high, rejection.per_token)
    return columns


def _applied(view: TokenView, correction: Correction, keep: Tensor) -> tuple[Tensor, Tensor]:
    """Log of the applied weight [P], -inf where rejected, and the applied weight - 1."""
    log, excess = correction.weight.log, correction.weight.excess
    if excess is None:
        log, excess = view.segments.expand(log), view.segments.expand(log.expm1())
    lost = (~keep).nonzero().squeeze(1)
    if lost.numel():
        log, excess = log.index_fill(0, lost, float("-inf")), excess.index_fill(0, lost, -1.0)
    return log, excess


def _applied_counts(
    view: TokenView, recipe: BoundRecipe, log: Tensor, bins: dict[Pair, Tensor], raw: dict[Pair, Counts]
) -> Counts:
    """Histogram of the applied log-weights: the raw one, with the tokens that the recipe changed moved."""
    rule = recipe.weight
    if rule.level is not Level.TOKEN or not rule.applied:
        return histogram.count(_weight_bins(log))
    pair = view.resolve(rule.pair)
    moved = (log != view.exact(pair)).nonzero().squeeze(1)
    before, after = histogram.count(bins[pair][moved]), histogram.count(_weight_bins(log[moved]))
    return raw[pair] - before + after


def _weight_bins(log: Tensor) -> Tensor:
    return histogram.bin_of(log).masked_fill(log == float("-inf"), histogram.ZERO_WEIGHT)


def _token_flags(segments: Segments, flags: Tensor, per_token: bool) -> Tensor:
    return flags if per_token else segments.expand(flags)


def _count(segments: Segments, flags: Tensor, per_token: bool) -> Tensor:
    return segments.count(flags) if per_token else flags * segments.lengths
