"""open-instruct's metrics (git e6c3044aa, grpo_utils.py): means over the loss tokens of the whole batch.

Left out: the values of the loss and of its KL term (loss/*, objective/kl*), val/ratio_var, a variance over the samples
of a rank, and policy/clipfrac_avg of loss_fn=cispo.
"""

from __future__ import annotations

import math

import numpy as np

from iscope.analysis.numbers import Array, figure, share
from iscope.analysis.recipe_rows import RecipeRows
from iscope.model import Figure, Figures
from iscope.recipes.model import Level, Pair

_NO_TOKENS = "no loss tokens"
_RHO = tuple(f"val/rho_{name}" for name in ("weight", "clipfrac", "drop_low_frac", "drop_high_frac", "drop_frac"))
_NOW = Pair.CURRENT_INFERENCE


def metrics(rows: RecipeRows) -> Figures:
    """val/rho_* of a correction, val/ratio and policy/clipfrac_avg with current logprobs, and debug/*."""
    found = _debug(rows)
    if rows.recipe.weight.level is not Level.NONE:
        found |= _rho(rows)
    if f"{rows.recipe.loss.pair}:weight_sum" in rows.rows:
        found["val/ratio"] = _mean(rows, rows.rows.pair("weight_sum", rows.recipe.loss.pair))
    if "loss.clipped_low" in rows:
        found["policy/clipfrac_avg"] = _clipped(rows)
    nan = int(rows.rows["nan_tokens"].sum())
    if nan:
        return dict.fromkeys(
            found, Figure.absent(f"{nan} loss tokens have a NaN logprob, which open-instruct replaces")
        )
    return found


def _mean(rows: RecipeRows, each: Array) -> Figure:
    return share(float(each.sum()), rows.rows.tokens, _NO_TOKENS)


def _rho(rows: RecipeRows) -> Figures:
    """The weights after clamp and mask, and the share of tokens that either changed."""
    if not rows.rows.tokens:
        return dict.fromkeys(_RHO, Figure.absent(_NO_TOKENS))
    weight = rows["weight_sum"] if rows.per_token else np.exp(rows["log_weight"]) * rows.rows.n
    low, high = rows.rejected(0) if rows.recipe.filters else (np.zeros(rows.rows.rollouts),) * 2
    each = (weight, rows.truncated_low + rows.truncated_high, low, high, low + high)
    return {name: _mean(rows, values) for name, values in zip(_RHO, each, strict=True)}


def _clipped(rows: RecipeRows) -> Figure:
    """Share of loss tokens that the surrogate clips and the mask leaves; the ledger does not keep the two together."""
    clipped = rows["loss.clipped_low"] + rows["loss.clipped_high"]
    if clipped[rows.masked > 0].any():
        return Figure.absent("open-instruct counts only what its mask leaves, of rollouts where both act")
    return _mean(rows, clipped)


def _debug(rows: RecipeRows) -> Figures:
    """abs(current - inference) over tokens, nats; without current logprobs the trainer's stand in."""
    tokens, filled = rows.rows.tokens, rows.rows.n > 0
    names = [f"debug/vllm_vs_local_logprob_diff_{stat}" for stat in ("mean", "max", "std")]
    if tokens < 2:
        return dict.fromkeys(names, Figure.absent("fewer than two loss tokens"))
    total = rows.rows.pair_total("abs_sum", _NOW)
    largest = np.maximum(-rows.rows.pair("log_ratio_min", _NOW), rows.rows.pair("log_ratio_max", _NOW))[filled].max()
    spread = max(rows.rows.pair_total("log_ratio_sq", _NOW) - total * total / tokens, 0.0) / (tokens - 1)
    values = (total / tokens, float(largest), math.sqrt(spread))
    found: Figures = {name: figure(value) for name, value in zip(names, values, strict=True)}
    found["debug/vllm_local_reverse_kl"] = _mean(rows, -rows.rows.pair("inference_weighted_sum", _NOW))
    return found
