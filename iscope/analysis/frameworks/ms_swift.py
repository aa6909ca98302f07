"""ms-swift's metrics (4.6.0, GRPOTrainer): rollout_correction/*, clip_ratio/*, cispo_clip_ratio, fipo/* and kl.

Those of the correction are over every loss token, those of the loss over the tokens that off-policy sequence masking
leaves; means over rollouts count the empty ones, at ratio and perplexity 1. One micro-batch on one rank is assumed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from iscope.analysis.numbers import Array, figure, share
from iscope.analysis.recipe_rows import RecipeRows
from iscope.model import Figure, Figures
from iscope.recipes.model import Level, bound_value

_LIMIT = 20.0
_LARGEST_FINITE = float(np.finfo(np.float32).max)
# Keeps the mean of the weights, and what ess divides by, from 0.
_SMALLEST_MEAN, _SMALLEST_SQUARE = 1e-8, 1e-10
_NO_TOKENS = "no loss tokens"

_Metrics = Iterator[tuple[str, float]]


def metrics(rows: RecipeRows) -> Figures:
    """Every metric ms-swift logs for this correction and loss; those of the loss take current logprobs."""
    if not rows.replayed:
        return {}
    with np.errstate(over="ignore", invalid="ignore"):
        found: Figures = {
            f"rollout_correction/{name}": figure(value) for name, value in (*_policies(rows), *_weights(rows))
        }
    found |= dict(_loss(rows))
    why = _why_none(rows)
    return found if why is None else dict.fromkeys(found, Figure.absent(why))


def _why_none(rows: RecipeRows) -> str | None:
    if not rows.rows.tokens:
        return _NO_TOKENS
    nan = int(rows.rows["nan_tokens"].sum())
    if nan:
        return f"ms-swift's own is NaN: {nan} loss tokens have a NaN logprob"
    largest = np.maximum(-rows.rows.pair("log_ratio_min"), rows.rows.pair("log_ratio_max"))[rows.rows.n > 0].max()
    return "ms-swift's own is not finite: some logprob is infinite" if largest >= _LARGEST_FINITE else None


def _token_mean(rows: RecipeRows, total: Array) -> float:
    """Mean over the loss tokens of the batch of what the rollouts hold sums [N] of."""
    return float(total.sum()) / max(rows.rows.tokens, 1)


def _policies(rows: RecipeRows) -> _Metrics:
    """Perplexities, KL and chi^2 of trainer (training) over inference (rollout); chi2_seq is of geometric means."""
    batch = rows.rows
    if not batch.tokens:
        return
    training, rollout = (batch[f"{name}_logprob_sum"] / np.maximum(batch.n, 1) for name in ("trainer", "inference"))
    yield "training_ppl", float(np.exp(-training).mean())
    yield "training_log_ppl", float(-training.mean())
    yield "kl", -_token_mean(rows, batch.pair("log_ratio_sum"))
    yield "k3_kl", _token_mean(rows, batch.pair("limited_k3_sum"))
    yield "rollout_ppl", float(np.exp(-rollout).mean())
    yield "rollout_log_ppl", float(-rollout.mean())
    difference = rollout - training
    yield "log_ppl_diff", float(difference.mean())
    yield "log_ppl_abs_diff", float(np.abs(difference).mean())
    yield "log_ppl_diff_max", float(difference.max())
    yield "log_ppl_diff_min", float(difference.min())
    yield "ppl_ratio", float(np.exp(difference).mean())
    yield "chi2_token", _token_mean(rows, batch.pair("limited_ratio_sq_sum")) - 1
    mean = np.clip(batch.log_ratio(Level.GEOMETRIC), -_LIMIT, _LIMIT)
    yield "chi2_seq", float(np.exp(2 * mean).mean()) - 1


def _weights(rows: RecipeRows) -> _Metrics:
    """The weights before off-policy sequence masking, rejected ones as 0; ess takes them within the bounds."""
    if rows.level is Level.NONE or not rows.rows.tokens:
        return
    yield "is_weight_mean", _token_mean(rows, rows["logged.weight_sum"])
    mean = _token_mean(rows, rows["logged.cut_sum"]) + _SMALLEST_MEAN
    square = _token_mean(rows, rows["logged.cut_sq"]) / mean**2
    yield "ess", 1 / max(square, _SMALLEST_SQUARE)
    mode = rows.recipe.imitated.partition("/")[2]
    flagged = rows.truncated_high
    for index, rule in enumerate(rows.recipe.filters):
        if rule.name == mode:
            flagged = rows.rejected(index)[1]
    yield "clipped_frac", _token_mean(rows, flagged) if mode.startswith("token") else _share_of_rollouts(rows, flagged)


def _share_of_rollouts(rows: RecipeRows, flagged: Array) -> float:
    """Share of rollouts beyond the bound, which an empty one, at ratio 1, can be as well."""
    high = bound_value(rows.recipe.weight.high)
    for rule in rows.recipe.filters:
        high = bound_value(rule.high) if rule.name == "sequence_mask" else high
    beyond = (flagged > 0) | ((rows.rows.n == 0) & (high is not None and high < 1))
    return float(beyond.mean())


def _loss(rows: RecipeRows) -> Iterator[tuple[str, Figure]]:
    """Means over the tokens left; on one rank the smallest and the largest share are the mean."""
    left = rows.rows.tokens - int(rows.dropped.sum())
    sums = {name: _total(rows, name) for name in ("clipped_low", "clipped_high", "capped", "kl")}
    means = {name: share(total, max(left, 1)) for name, total in sums.items() if total is not None}
    if "clipped_low" in means and "clipped_high" in means:
        yield from ((f"clip_ratio/{name}", means["clipped_low"]) for name in ("low_mean", "low_min"))
        yield from ((f"clip_ratio/{name}", means["clipped_high"]) for name in ("high_mean", "high_max"))
        both = (sums["clipped_low"] or 0.0) + (sums["clipped_high"] or 0.0)
        yield "clip_ratio/region_mean", share(both, max(left, 1))
    if "capped" in means:
        yield "cispo_clip_ratio", means["capped"]
    if "kl" in means:
        yield "kl", means["kl"]
    later, factor, unsafe = (_total(rows, name) for name in ("future_kl", "influence", "unsafe"))
    if later is not None and factor is not None and unsafe is not None:
        yield "fipo/future_kl_mean", share(later, max(left, 1))
        yield "fipo/influence_weight_mean", share(factor, max(left, 1))
        yield "fipo/safety_keep_ratio", share(left - unsafe, max(left, 1))


def _total(rows: RecipeRows, name: str) -> float | None:
    """Sum of an indicator of the loss over the batch; None where it was not measured."""
    found = rows.get(f"loss.{name}")
    return None if found is None else float(found.sum())
