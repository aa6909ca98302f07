"""What a recipe does to the gradient: how much is left, of which sign, from how many rollouts.

g_i = sum over a rollout's tokens of abs(c_t) (1 - p_t), c_t the score coefficient of the policy term. Everything is
compared with the base: the same loss and aggregation at weight 1 with everything kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from iscope.analysis.numbers import NO_TOKENS, Array, effective_size, from_log, log_of, log_sum_exp, share
from iscope.analysis.rows import RecipeRows
from iscope.model import Figure, Figures
from iscope.recipes.model import Aggregation

NO_ADVANTAGE = "the dump has no advantages"
NO_GRADIENT = "no rollout has a gradient: every advantage is 0"
_LOG_TWO = math.log(2.0)


def figures(rows: RecipeRows) -> Figures:
    """Effective batch size, gradient left, groups with both signs, product left."""
    sides = gradients(rows)
    if sides is None:
        return _without_advantages(rows)
    kept, base = sides
    return {
        "effective_batch_size": {
            **Figure(effective_size(kept.total)).to_dict(),
            "basis": "gradient",
            "base": Figure(effective_size(base.total)),
        },
        "gradient_left": _gradient_left(rows, kept, base),
        "groups_with_both_signs": _groups(rows, kept, base),
        "product_left": _product_left(rows, kept),
    }


@dataclass(frozen=True)
class Gradients:
    """Log of g of each rollout, by sign of the advantage."""

    positive: Array
    negative: Array

    @property
    def total(self) -> Array:
        """Log of g, both signs together."""
        return np.logaddexp(self.positive, self.negative)

    def shifted(self, by: Array | float) -> Gradients:
        """The same, every log moved by this much."""
        return Gradients(self.positive + by, self.negative + by)


def gradients(rows: RecipeRows) -> tuple[Gradients, Gradients] | None:
    """g after the recipe and of its base, normalised within the rollout as the aggregation does; None without A."""
    kept = [rows.log_gradient(sign) for sign in ("positive", "negative")]
    base = [rows.log_base_gradient(sign) for sign in ("positive", "negative")]
    if kept[0] is None or kept[1] is None or base[0] is None or base[1] is None:
        return None
    within = -log_of(rows.rows["loss_tokens"] + rows.recipe.loss.count_epsilon) if _is_rollout_mean(rows) else 0.0
    return Gradients(kept[0], kept[1]).shifted(within + _shrinking(rows)), Gradients(base[0], base[1]).shifted(within)


def _shrinking(rows: RecipeRows) -> Array:
    """Log of what the loss of each rollout gains because tokens that filters drop leave what it is divided by."""
    dropped, loss = rows.dropped, rows.recipe.loss
    if _is_rollout_mean(rows):
        before, epsilon = rows.rows["loss_tokens"], loss.count_epsilon
        return log_of((before + epsilon) / (np.maximum(before - dropped, 1) + epsilon))
    if loss.aggregation is not Aggregation.TOKEN_MEAN or loss.counts_dropped or not dropped.any():
        return np.zeros(rows.rows.rollouts)
    whole = rows.rows.batch_loss_tokens
    return np.full(rows.rows.rollouts, math.log(whole / max(whole - int(dropped.sum()), 1)))


def _is_rollout_mean(rows: RecipeRows) -> bool:
    return rows.recipe.loss.aggregation is Aggregation.SEQ_MEAN_TOKEN_MEAN


def _gradient_left(rows: RecipeRows, kept: Gradients, base: Gradients) -> Figures:
    order = np.sort(kept.total)[::-1]
    whole = log_sum_exp(order)
    percent = max(1, math.ceil(order.size / 100))
    empty = NO_GRADIENT if rows.rows.rollouts else NO_TOKENS
    return {
        "all": _ratio(kept.total, base.total, empty),
        "positive": _ratio(kept.positive, base.positive, "no gradient with A > 0"),
        "negative": _ratio(kept.negative, base.negative, "no gradient with A < 0"),
        "survivors": _survivors(rows, kept, base, empty),
        "heaviest_rollout": _part(order[:1], whole),
        "heaviest_percent": _part(order[:percent], whole),
    }


def _ratio(part: Array, whole: Array, empty: str) -> Figure:
    below = log_sum_exp(whole)
    return Figure.absent(empty) if below == -math.inf else from_log(log_sum_exp(part) - below)


def _part(heaviest: Array, whole: float) -> Figure:
    return Figure.absent("no gradient is left") if whole == -math.inf else from_log(log_sum_exp(heaviest) - whole)


def _survivors(rows: RecipeRows, kept: Gradients, base: Gradients, empty: str) -> Figure:
    """Gradient left if the loss were divided by what is kept instead of by what the framework counts."""
    if not rows.kept.sum():
        return Figure.absent("everything was masked")
    if rows.recipe.loss.aggregation is Aggregation.TOKEN_MEAN:
        between = math.log(rows.rows.batch_loss_tokens / int(rows.kept.sum()))
    else:
        between = math.log(rows.rows.batch_rollouts / int((rows.kept > 0).sum()))
    within = log_of(rows.rows["loss_tokens"] / np.maximum(rows.kept, 1)) if _is_rollout_mean(rows) else 0.0
    return _ratio(kept.shifted(within + between - _shrinking(rows)).total, base.total, empty)


def _groups(rows: RecipeRows, kept: Gradients, base: Gradients) -> Figures:
    """Groups with gradient of both signs, before and after."""
    if "group_id" not in rows.rows:
        return {side: Figure.absent("the dump has no group_id") for side in ("kept", "total")}
    _, group = np.unique(rows.rows["group_id"].astype(str), return_inverse=True)

    def both(sides: Gradients) -> int:
        present = [np.bincount(group, weights=log > -math.inf) > 0 for log in (sides.positive, sides.negative)]
        return int((present[0] & present[1]).sum())

    return {"kept": both(kept), "total": both(base)}


def _product_left(rows: RecipeRows, kept: Gradients) -> Figure:
    """Share of the kept gradient in rollouts weighted otherwise than by exp(S), by more than a factor of 2."""
    whole = log_sum_exp(kept.total)
    if whole == -math.inf:
        return Figure.absent("no gradient is left")
    away = np.abs(rows.rows.log_ratio("sequence", rows.recipe.weight.pair) - rows.log_mean_weight)
    return from_log(log_sum_exp(kept.total[~(away <= _LOG_TWO)]) - whole)


def _without_advantages(rows: RecipeRows) -> Figures:
    names = ("all", "positive", "negative", "survivors", "heaviest_rollout", "heaviest_percent")
    absent = Figure.absent(NO_ADVANTAGE)
    size = share(effective_size(rows.log_mean_weight), 1) if rows.rows.rollouts else Figure.absent(NO_TOKENS)
    return {
        "effective_batch_size": {**size.to_dict(), "basis": "weights", "base": Figure(rows.rows.rollouts)},
        "gradient_left": dict.fromkeys(names, absent),
        "groups_with_both_signs": {"kept": absent, "total": absent},
        "product_left": absent,
    }
