"""NeMo-RL's metrics of its importance weights: their mean after truncation, and how much was out of bounds."""

from __future__ import annotations

import numpy as np

from iscope.analysis.numbers import Array, figure
from iscope.analysis.recipe_rows import RecipeRows
from iscope.model import Figure, Figures
from iscope.recipes.model import Level, Reduction, bound_value
from iscope.recipes.nemo_rl import SEQ_LOGPROB_ERROR

EPSILON = 1e-8  # in every denominator of its masked_mean

_NO_TOKENS = "no loss tokens"


def dropped(rows: RecipeRows) -> Array:
    """Whether seq_logprob_error_threshold takes each rollout out of the batch [N]."""
    names = [rule.name for rule in rows.recipe.filters]
    if SEQ_LOGPROB_ERROR not in names:
        return np.zeros(rows.rows.rollouts, dtype=np.bool_)
    return np.asarray(rows.rejected(names.index(SEQ_LOGPROB_ERROR))[1] > 0)


def sampling_ratio(rows: RecipeRows, kept: Array) -> Figure:
    """Mean of the weights after truncation, taken whether or not the loss applies them.

    With sequence_level_importance_ratios it is their sum over the rollouts: NeMo-RL multiplies each by the whole
    sample_mask before it divides by the number of valid samples.
    """
    if rows.recipe.loss.level == "sequence":
        valid = float(kept.sum())
        return figure(float(_sequence_weights(rows, kept).sum()) * valid / (valid + EPSILON))
    tokens = float(rows.rows.n[kept].sum())
    if not tokens:
        return Figure.absent(_NO_TOKENS)
    applied = rows.recipe.weight.level is not Level.NONE
    total = rows["weight_sum"] if applied else rows.rows.pair("weight_sum", rows.recipe.weight.pair)
    return figure(float(total[kept].sum()) / (tokens + EPSILON))


def _sequence_weights(rows: RecipeRows, kept: Array) -> Array:
    """Weight of each rollout, the product of its ratios within the bounds; one that is dropped has ratio 1."""
    with np.errstate(over="ignore"):
        ratio = np.exp(rows.rows.log_ratio("sequence", rows.recipe.weight.pair))
    ratio = np.where(kept, np.where(np.isfinite(ratio), ratio, 0.0), 1.0)
    low, high = bound_value(rows.recipe.weight.low), bound_value(rows.recipe.weight.high)
    if high is not None:
        return np.clip(ratio, low or 0.0, high)
    for rule in rows.recipe.filters:
        if rule.name != SEQ_LOGPROB_ERROR:
            inside = (ratio >= (bound_value(rule.low) or 0.0)) & (ratio <= (bound_value(rule.high) or 0.0))
            ratio = np.where(inside, ratio, 0.0)
    return ratio


def out_of_bounds(rows: RecipeRows, kept: Array) -> Figures:
    """is_oob_ratio, of the recipes with bounds: a share of the loss tokens, with seq-mask-tis of the rollouts."""
    rules = [rule for rule in rows.recipe.filters if rule.name != SEQ_LOGPROB_ERROR]
    if not rules and bound_value(rows.recipe.weight.high) is None:
        return {}
    low, high = rows.rejected(0) if rules else (rows.truncated_low, rows.truncated_high)
    if rules and rules[0].reduction is Reduction.MEAN:
        one = (bound_value(rules[0].low) or 0.0) <= 1.0 <= (bound_value(rules[0].high) or 0.0)
        out = np.where(rows.rows.n > 0, low + high > 0, not one)
        return {"is_oob_ratio": figure(float(out[kept].sum()) / (float(kept.sum()) + EPSILON))}
    tokens = float(rows.rows.n[kept].sum())
    if not tokens:
        return {"is_oob_ratio": Figure.absent(_NO_TOKENS)}
    return {"is_oob_ratio": figure(float((low + high)[kept].sum()) / (tokens + EPSILON))}
