"""What a recipe does to the gradient: how much is left, of which sign, from how many rollouts.

g_i = sum over a rollout's tokens of abs(c_t) (1 - p_t), c_t the score coefficient of the policy term. Everything is
compared with the base: the same loss and aggregation at weight 1 with everything kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from iscope.analysis.denominators import denominators
from iscope.analysis.intervals import bounded, log_fraction, log_ratio, log_size, scaled
from iscope.analysis.numbers import NO_TOKENS, Array, from_log, log_sum_exp
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
    clusters = rows.rows.clusters
    return {
        "effective_batch_size": {
            **log_size(clusters, kept.total).to_dict(),
            "basis": "gradient",
            "base": log_size(clusters, base.total),
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

    @cached_property
    def total(self) -> Array:
        """Log of g, both signs together."""
        return np.logaddexp(self.positive, self.negative)

    def shifted(self, by: Array | float) -> Gradients:
        """The same, every log moved by this much."""
        return Gradients(self.positive + by, self.negative + by)


def gradients(rows: RecipeRows) -> tuple[Gradients, Gradients] | None:
    """g after the recipe and of its base, over what the framework divides either loss by; None without A."""
    kept = [rows.log_gradient(sign) for sign in ("positive", "negative")]
    base = [rows.log_base_gradient(sign) for sign in ("positive", "negative")]
    if kept[0] is None or kept[1] is None or base[0] is None or base[1] is None:
        return None
    below = denominators(rows)
    return Gradients(kept[0], kept[1]).shifted(-below.kept), Gradients(base[0], base[1]).shifted(-below.base)


def _gradient_left(rows: RecipeRows, kept: Gradients, base: Gradients) -> Figures:
    order = np.sort(kept.total)[::-1]
    whole = log_sum_exp(order)
    percent = max(1, math.ceil(order.size / 100))
    empty = NO_GRADIENT if rows.rows.rollouts else NO_TOKENS
    clusters = rows.rows.clusters
    return {
        "all": log_ratio(clusters, kept.total, base.total, empty),
        "positive": log_ratio(clusters, kept.positive, base.positive, "no gradient with A > 0"),
        "negative": log_ratio(clusters, kept.negative, base.negative, "no gradient with A < 0"),
        "survivors": _survivors(rows, kept, base, empty),
        "heaviest_rollout": _part(order[:1], whole),
        "heaviest_percent": _part(order[:percent], whole),
    }


def _part(heaviest: Array, whole: float) -> Figure:
    return Figure.absent("no gradient is left") if whole == -math.inf else from_log(log_sum_exp(heaviest) - whole)


def _survivors(rows: RecipeRows, kept: Gradients, base: Gradients, empty: str) -> Figure:
    """Gradient left if the loss were divided by what is kept instead of by what the framework counts."""
    if not rows.kept.sum():
        return Figure.absent("everything was masked")
    over = denominators(rows)
    left, whole = kept.shifted(over.kept - over.survivors).total, base.shifted(over.base - over.full).total
    below = log_sum_exp(whole)
    if below == -math.inf:
        return Figure.absent(empty)
    found = from_log(log_sum_exp(left) - below)
    before, after = _counted(rows)
    # Of several batches the counts are held; of one they are resampled, but not rollouts that are not in these rows.
    scale = float(after.sum()) / float(before.sum())
    return bounded(
        found,
        rows.rows.clusters,
        lambda part, base, before, after: scale * (part / base) * (before / after),
        (*scaled(left, whole), before, after),
    )


def _counted(rows: RecipeRows) -> tuple[Array, Array]:
    """What each rollout adds to the denominator of its batch, and what if only what is kept counted."""
    if rows.rows.batch_column is None and rows.recipe.loss.aggregation is Aggregation.TOKEN_MEAN:
        return rows.rows["loss_tokens"], rows.kept
    ones = np.ones_like(rows.kept)
    if rows.rows.batch_column is not None or rows.recipe.loss.aggregation is Aggregation.TOKEN_SUM:
        return ones, ones
    return ones, rows.kept > 0


def _groups(rows: RecipeRows, kept: Gradients, base: Gradients) -> Figures:
    """Groups with gradient of both signs, before and after."""
    if "group_id" not in rows.rows:
        return {side: Figure.absent("the dump has no group_id") for side in ("kept", "total")}
    group = rows.rows.cluster_codes

    def both(sides: Gradients) -> int:
        present = [np.bincount(group, weights=log > -math.inf) > 0 for log in (sides.positive, sides.negative)]
        return int((present[0] & present[1]).sum())

    return {"kept": both(kept), "total": both(base)}


def _product_left(rows: RecipeRows, kept: Gradients) -> Figure:
    """Share of the kept gradient in rollouts weighted otherwise than by exp(S): by over a factor of 2, or in sign."""
    away = np.abs(rows.rows.log_ratio("sequence", rows.recipe.weight.pair) - rows.log_mean_weight)
    alike = (away <= _LOG_TWO) & (rows.recipe.weight.sign > 0)
    otherwise = np.where(alike, -np.inf, kept.total)
    return log_fraction(rows.rows.clusters, otherwise, kept.total, "no gradient is left")


def _without_advantages(rows: RecipeRows) -> Figures:
    names = ("all", "positive", "negative", "survivors", "heaviest_rollout", "heaviest_percent")
    absent = Figure.absent(NO_ADVANTAGE)
    clusters, logs = rows.rows.clusters, rows.log_mean_weight
    return {
        "effective_batch_size": {
            **(log_size(clusters, logs) if rows.rows.rollouts else Figure.absent(NO_TOKENS)).to_dict(),
            "basis": "weights",
            "base": Figure(rows.rows.rollouts),
        },
        "gradient_left": dict.fromkeys(names, absent),
        "groups_with_both_signs": {"kept": absent, "total": absent},
        "product_left": absent,
    }
