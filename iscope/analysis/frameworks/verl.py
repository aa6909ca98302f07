"""verl's metrics of its rollout correction and of its policy losses (verl 0.9.1): rollout_corr/* and actor/*.

They are over every loss token, before rejection and batch normalisation; means over rollouts count the empty ones. The
batch is taken as one, on one rank.
"""

from __future__ import annotations

import math

import numpy as np

from iscope.analysis.frameworks.verl_losses import loss_metrics
from iscope.analysis.frameworks.verl_rejection import rejection_metrics
from iscope.analysis.frameworks.verl_shared import LARGEST_FINITE, LIMIT, Metrics, masked_mean, rollout_mean, spread
from iscope.analysis.numbers import Array, figure
from iscope.analysis.recipe_rows import RecipeRows
from iscope.ledger.logged import weight_bounds
from iscope.model import Figure, Figures
from iscope.recipes.model import Level, Pair

_NO_TOKENS = "no loss tokens"


def metrics(rows: RecipeRows) -> Figures:
    """Every metric verl logs for this correction and loss; those of the loss take current logprobs."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = {f"rollout_corr/{name}": value for name, value in _correction(rows)}
    found |= dict(loss_metrics(rows))
    why = _why_none(rows)
    return {name: figure(value) if why is None else Figure.absent(why) for name, value in found.items()}


def _why_none(rows: RecipeRows) -> str | None:
    if not rows.rows.tokens:
        return _NO_TOKENS
    nan = int(rows.rows["nan_tokens"].sum())
    if nan:
        return f"verl's own is NaN: {nan} loss tokens have a NaN logprob"
    pair = rows.recipe.weight.pair
    filled = rows.rows.n > 0
    largest = np.maximum(-rows.rows.pair("log_ratio_min", pair), rows.rows.pair("log_ratio_max", pair))[filled].max()
    return "verl's own is not finite: some logprob is infinite" if largest >= LARGEST_FINITE else None


def _correction(rows: RecipeRows) -> Metrics:
    if not rows.rows.tokens:
        return
    if _weighs(rows):
        yield from _weights(rows)
    yield from rejection_metrics(rows)
    yield from _off_policy(rows)


def _weighs(rows: RecipeRows) -> bool:
    """Whether the recipe's ratio is an importance weight, not the one that the loss clips."""
    return rows.level is not Level.NONE and rows.recipe.loss.type != "clipped_weight"


def _weights(rows: RecipeRows) -> Metrics:
    bounds = weight_bounds(rows.recipe)
    assert bounds is not None
    total, squares = rows["logged.weight_sum"], rows["logged.weight_sq"]
    yield "rollout_is_mean", masked_mean(rows, total)
    yield from _token_extremes(rows) if rows.level is Level.TOKEN else _sequence_extremes(rows, bounds)
    yield "rollout_is_std", spread(rows, total, squares)
    normal = masked_mean(rows, squares) / (masked_mean(rows, total) + 1e-8) ** 2
    yield "rollout_is_eff_sample_size", 1 / normal if normal > 0 else math.nan
    own = rollout_mean(rows, total)
    yield "rollout_is_seq_mean", float(own.mean())
    yield "rollout_is_seq_std", float(own.std(ddof=1)) if own.size > 1 else 0.0
    yield "rollout_is_seq_max", float(own.max())
    yield "rollout_is_seq_min", float(own.min())
    yield "rollout_is_seq_max_deviation", float(np.abs(own - 1).max())
    raw = rollout_mean(rows, _raw_sum(rows))
    yield "rollout_is_seq_fraction_high", float((raw > bounds[1]).mean())
    yield "rollout_is_seq_fraction_low", float((raw < bounds[0]).mean())
    zeroing = [index for index, rule in enumerate(rows.recipe.filters) if not rule.drops]
    if zeroing:
        yield "rollout_is_oob_ratio", masked_mean(rows, np.add(*rows.rejected(zeroing[0])))
    if rows.recipe.weight.normalises:
        yield "rollout_is_batch_norm_factor", rows.mean_weight


def _token_extremes(rows: RecipeRows) -> Metrics:
    filled = rows.rows.n > 0
    yield "rollout_is_max", float(rows["logged.weight_max"][filled].max())
    yield "rollout_is_min", float(rows["logged.weight_min"][filled].min())
    yield "rollout_is_ratio_fraction_high", masked_mean(rows, rows["logged.above"])
    yield "rollout_is_ratio_fraction_low", masked_mean(rows, rows["logged.below"])


def _sequence_extremes(rows: RecipeRows, bounds: tuple[float, float]) -> Metrics:
    """Of the raw product over every rollout, an empty one as 1; the bounds are compared as float32 logs."""
    logs = _log_ratio(rows)
    yield "rollout_is_max", math.exp(min(float(logs.max()), LIMIT))
    yield "rollout_is_min", float(np.exp(logs.min()))
    low, high = (float(np.log(np.float32(bound))) for bound in bounds)
    yield "rollout_is_ratio_fraction_high", float((logs > high).mean())
    yield "rollout_is_ratio_fraction_low", float((logs < low).mean())


def _raw_sum(rows: RecipeRows) -> Array:
    """Sum over each rollout's tokens of the weight before any bound."""
    if rows.level is Level.TOKEN:
        return rows.rows.pair("limited_ratio_sum", rows.recipe.weight.pair)
    raw: Array = rows.rows.n * np.exp(np.clip(_log_ratio(rows), -LIMIT, LIMIT))
    return raw


def _log_ratio(rows: RecipeRows) -> Array:
    return rows.rows.log_ratio(Level.SEQUENCE, rows.recipe.weight.pair)


def _off_policy(rows: RecipeRows) -> Metrics:
    """Perplexities, KL and chi^2 of the pair; training is the policy above, rollout the one below."""
    batch, pair = rows.rows, rows.recipe.weight.pair
    total = batch.pair("log_ratio_sum", pair)
    below = batch["inference_logprob_sum"]
    above = batch["trainer_logprob_sum"] if batch.resolve(pair) is Pair.TRAINER_INFERENCE else below + total
    for name, logprobs in (("training", above), ("rollout", below)):
        surprise = -rollout_mean(rows, logprobs)
        yield f"{name}_ppl", float(np.exp(surprise).mean())
        yield f"{name}_log_ppl", float(surprise.mean())
    yield "kl", -masked_mean(rows, total)
    yield "k3_kl", masked_mean(rows, batch.pair("k3_sum", pair))
    difference = rollout_mean(rows, below) - rollout_mean(rows, above)
    yield "log_ppl_diff", float(difference.mean())
    yield "log_ppl_abs_diff", float(np.abs(difference).mean())
    yield "log_ppl_diff_max", float(difference.max())
    yield "log_ppl_diff_min", float(difference.min())
    yield "ppl_ratio", float(np.exp(difference).mean())
    yield "chi2_token", masked_mean(rows, batch.pair("limited_ratio_sq_sum", pair)) - 1
    yield "chi2_seq", float(np.exp(2 * np.clip(total, -LIMIT, LIMIT)).mean()) - 1
