"""slime's metrics of MIS, mis_*, before any rejection (commit 624b824a, mis.py of its mismatch example)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from iscope.analysis.frameworks.slime_means import Means
from iscope.analysis.numbers import Array
from iscope.analysis.recipe_rows import RecipeRows
from iscope.model import Figure
from iscope.recipes.model import Level, Pair

_PAIR = Pair.TRAINER_INFERENCE
_LIMIT = 20.0


def mis_metrics(rows: RecipeRows, means: Means) -> Iterator[tuple[str, Figure]]:
    """Perplexities, divergences, weights before and after their bounds, and what is outside them."""
    yield from ((f"mis_{name}", value) for name, value in _divergences(rows, means))
    if rows.level is Level.NONE:
        return
    yield from ((f"mis_{name}", value) for name, value in _weights(rows, means))
    yield from ((f"mis_{name}", value) for name, value in _outside(rows, means))


def _divergences(rows: RecipeRows, means: Means) -> Iterator[tuple[str, Figure]]:
    batch = rows.rows
    n = np.maximum(batch.n, 1)
    training, rollout = -batch["trainer_logprob_sum"] / n, -batch["inference_logprob_sum"] / n
    apart = training - rollout
    summed = np.clip(batch.log_ratio(Level.SEQUENCE, _PAIR), -_LIMIT, _LIMIT)
    yield "training_log_ppl", means.of_values(training)
    yield "training_ppl", means.of_values(np.exp(training))
    yield "rollout_log_ppl", means.of_values(rollout)
    yield "rollout_ppl", means.of_values(np.exp(rollout))
    yield "log_ppl_diff", means.of_values(apart)
    yield "log_ppl_abs_diff", means.of_values(np.abs(apart))
    yield "ppl_ratio", means.of_values(np.exp(apart))
    yield "kl", means.of(-batch.pair("log_ratio_sum", _PAIR))
    yield "k3_kl", means.of(batch.pair("k3_sum", _PAIR))
    yield "chi2_token", means.of_values(batch.pair("limited_ratio_sq_sum", _PAIR) / n - 1)
    yield "chi2_seq", means.of_values(np.exp(2 * summed) - 1)


def _weights(rows: RecipeRows, means: Means) -> Iterator[tuple[str, Figure]]:
    """Weights as they come, cut, and divided by the batch's mean; rejected ones stay in all of them."""
    after, mean = rows.rows[f"recipe{rows.index}:logged.weight_sum"], rows.mean_weight
    yield "tis_weight_before_bound", means.of(_before_bound(rows))
    yield "tis_weight_after_bound", means.of(after)
    yield "is_ratio_mean_after_tis_rs", means.of(after)
    if rows.recipe.weight.normalises:
        yield "batch_norm_factor", means.of_values(np.full(rows.rows.rollouts, mean))
    yield "is_ratio_mean_final", means.of(after / mean)
    for name in ("min", "max"):
        extreme = np.where(rows.rows.n > 0, rows[f"logged.weight_{name}"], 0.0)
        yield f"is_ratio_{name}_final", means.of_values(extreme / mean)


def _before_bound(rows: RecipeRows) -> Array:
    if rows.level is Level.TOKEN:
        return rows.rows.pair("limited_ratio_sum", _PAIR)
    log = rows.rows.log_ratio(rows.level, _PAIR)
    return np.asarray(np.exp(np.clip(log, -_LIMIT, _LIMIT)) * rows.rows.n)


def _outside(rows: RecipeRows, means: Means) -> Iterator[tuple[str, Figure]]:
    mode = rows.recipe.options["tis_mode"]
    if mode == "truncate":
        yield "tis_truncate_fraction", means.of(rows.truncated_high)
    if mode == "clip":
        yield "tis_clip_fraction_low", means.of(rows.truncated_low)
        yield "tis_clip_fraction_high", means.of(rows.truncated_high)
    labels = {"mis_mask": "tis_mask", "rs": "rs_mask"}
    for index, rule in enumerate(rows.recipe.filters):
        low, high = rows.rejected(index)
        if rule.name in labels:
            yield f"{labels[rule.name]}_fraction_low", means.of(low)
            yield f"{labels[rule.name]}_fraction_high", means.of(high)
        if rule.name == "veto":
            yield "rs_catastrophic_token_fraction", means.of(rows[f"statistic{index}_outside"])
            yield "rs_catastrophic_seq_fraction", means.of(low)
