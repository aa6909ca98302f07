"""What a recipe does to the gradient: how much is left, of which sign, from how many rollouts.

g_i = sum over a rollout's tokens of abs(c_t) (1 - p_t), c_t the score coefficient of the policy term. Everything is
compared with the base: the same loss and aggregation at weight 1 with everything kept.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from iscope.analysis.denominators import denominators, survivors
from iscope.analysis.figures.changes import changed
from iscope.analysis.figures.weights import weights_of
from iscope.analysis.intervals import Clusters, Weighed, closed, log_size, part_of, pending, weight_ratio
from iscope.analysis.intervals.statistics import Statistic
from iscope.analysis.latest import latest
from iscope.analysis.numbers import NO_ADVANTAGE, NO_TOKENS, Array, Scaled, from_log, read_only
from iscope.analysis.order_statistics import largest
from iscope.analysis.recipe_rows import RecipeRows
from iscope.model import Figure, Figures
from iscope.recipes.model import Aggregation
from iscope.replay.compiled import compiled

NO_GRADIENT = "no rollout has a gradient: every advantage is 0"
EMPTY = {
    "all": NO_GRADIENT,
    "positive": "no gradient with A > 0",
    "negative": "no gradient with A < 0",
}
_LOG_TWO = math.log(2.0)
_BOTH = 3


def figures(rows: RecipeRows) -> Figures:
    """Effective batch size, gradient left, groups with both signs, product left."""
    sides = gradients(rows)
    if sides is None:
        return _without_advantages(rows)
    kept = _Summed.over(rows.rows.clusters, sides[0])
    base = latest(rows.rows, "summed base", _base_name(rows), lambda: _summed_base(rows, sides[1]))
    return {
        "effective_batch_size": {"value": kept.size, "basis": "gradient", "base": base.size},
        "gradient_left": _gradient_left(rows, kept, base) | _heaviest(kept.of),
        "groups_with_both_signs": _groups(rows, *sides),
        "product_left": _product_left(rows, kept),
    }


@dataclass(frozen=True)
class Gradients:
    """Log of g of each rollout, float64 [N], by sign of the advantage and in all."""

    positive: Array
    negative: Array
    total: Array

    @classmethod
    def moved(cls, positive: Array, negative: Array, by: Array) -> Gradients:
        """Add ``by``, [N] or [1], to the logs of either sign [N]."""
        found = np.empty((3, positive.size))
        logs = positive, negative, np.broadcast_to(by, positive.shape)
        if move_logs(found, *(read_only(log, np.float64) for log in logs)):
            # Few, or none: the tokens of a rollout mostly share their advantage.
            both = np.flatnonzero(found[:2].min(axis=0) > -np.inf)
            found[2, both] = np.logaddexp(found[0, both], found[1, both])
        return cls(*found)

    @cached_property
    def scaled(self) -> dict[str, Scaled]:
        """g of ``all``, ``positive`` and ``negative`` over the largest of each."""
        return {"all": Scaled(self.total), "positive": Scaled(self.positive), "negative": Scaled(self.negative)}

    def groups_with_both(self, group: Array) -> int:
        """How many groups, given by the number of each rollout's [N], have gradient of both signs."""
        seen = np.zeros(int(group.max(initial=-1)) + 1, dtype=np.uint8)
        see_signs(
            seen, read_only(group, np.int64), *(read_only(log, np.float64) for log in (self.positive, self.negative))
        )
        return int(np.count_nonzero(seen == _BOTH))


@compiled()
def move_logs(found: Any, positive: Any, negative: Any, by: Any) -> int:
    """Write logs moved, and the larger of both; return in how many rows neither is -inf.

    Args:
        found: where to write, float64 [3, N].
        positive: float64 [N], read only, as all that follow.
        negative: float64 [N].
        by: what to add to both, float64 [N].
    """
    both = 0
    for row in range(len(by)):
        first, second = positive[row] + by[row], negative[row] + by[row]
        found[0, row], found[1, row], found[2, row] = first, second, max(first, second)
        both += (first > -math.inf) & (second > -math.inf)
    return both


@compiled()
def see_signs(seen: Any, group: Any, positive: Any, negative: Any) -> None:
    """Note which groups have gradient with A > 0 (1) and with A < 0 (2).

    Args:
        seen: what to add these to, uint8 [G].
        group: the group of each rollout, int64 [N], from 0; read only, as all that follow.
        positive: log of its gradient with A > 0, float64 [N].
        negative: with A < 0, float64 [N].
    """
    for row in range(len(group)):
        at = np.uint64(group[row])
        seen[at] |= (positive[row] > -math.inf) | ((negative[row] > -math.inf) << 1)


def gradients(rows: RecipeRows) -> tuple[Gradients, Gradients] | None:
    """g after the recipe and of its base, over what the framework divides either loss by; None without A."""
    return latest(rows.rows, "gradients", rows.index, lambda: _gradients(rows))


def _gradients(rows: RecipeRows) -> tuple[Gradients, Gradients] | None:
    base = latest(rows.rows, "base", _base_name(rows), lambda: _base(rows))
    over = denominators(rows).kept
    # A rollout's weight multiplies what the uncorrected loss has.
    logs, by = (rows.log_gradient, -over) if rows.per_token else (rows.log_base_gradient, rows["log_weight"] - over)
    positive, negative = (logs(sign) for sign in ("positive", "negative"))
    if positive is None or negative is None or base is None:
        return None
    return Gradients.moved(positive, negative, by), base


def _base_name(rows: RecipeRows) -> Hashable:
    """What recipes that share their base have in common."""
    return rows.base, rows.recipe.loss.aggregation, rows.recipe.loss.denominator


def _base(rows: RecipeRows) -> Gradients | None:
    positive, negative = (rows.log_base_gradient(sign) for sign in ("positive", "negative"))
    if positive is None or negative is None:
        return None
    return Gradients.moved(positive, negative, -denominators(rows).base)


@dataclass(frozen=True)
class _Summed:
    """Gradients with their sums over blocks, by sign, and their effective batch size."""

    of: Gradients
    sums: dict[str, Weighed]
    size: Figure

    @classmethod
    def over(cls, clusters: Clusters, of: Gradients) -> _Summed:
        weighed, squares = Weighed.over(clusters, *of.scaled.values())
        return cls(of, dict(zip(of.scaled, weighed, strict=True)), log_size(weighed[0], squares))


def _summed_base(rows: RecipeRows, base: Gradients) -> _Summed:
    """The base, which recipes share: its size gets its interval once."""
    summed = _Summed.over(rows.rows.clusters, base)
    (size,) = closed([summed.size])
    return replace(summed, size=size)


def _gradient_left(rows: RecipeRows, kept: _Summed, base: _Summed) -> Figures:
    """What is left of all, by sign, and among survivors."""
    empty = EMPTY | ({} if rows.rows.rollouts else {"all": NO_TOKENS})
    left = {name: weight_ratio(kept.sums[name], base.sums[name], why) for name, why in empty.items()}
    return {**left, "survivors": _survivors(rows, kept, base, empty["all"])}


def _heaviest(kept: Gradients) -> Figures:
    whole = kept.scaled["all"]
    if whole.top == -math.inf:
        return dict.fromkeys(("heaviest_rollout", "heaviest_percent"), Figure.absent("no gradient is left"))
    heaviest = largest(whole.values, math.ceil(whole.logs.size / 100))
    return {
        "heaviest_rollout": from_log(whole.top - whole.log_sum),
        "heaviest_percent": from_log(whole.top + math.log(float(heaviest.sum())) - whole.log_sum),
    }


def _survivors(rows: RecipeRows, kept: _Summed, base: _Summed, empty: str) -> Figure:
    """Gradient left if the loss were divided by what is kept instead of by what the framework counts."""
    clusters, (before, after) = rows.rows.clusters, _counted(rows)
    if not changed(rows).sums.kept.any():
        return Figure.absent("everything was masked")
    over = denominators(rows)
    left, more = _moved(clusters, kept, over.kept - survivors(rows))
    whole, less = _moved(clusters, base, over.base - over.full)
    if whole.weights.log_sum == -math.inf:
        return Figure.absent(empty)
    # Of several batches the counts are held; of one they are resampled, but not rollouts that are not in these rows.
    scale = math.log(float(after.sum()) / float(before.sum()))
    found = from_log(left.weights.log_sum + more - whole.weights.log_sum - less)
    shift = scale + left.weights.top + more - whole.weights.top - less
    return pending(found, Statistic.QUOTIENTS, (left.sums, whole.sums, before, after), shift)


def _moved(clusters: Clusters, sides: _Summed, by: Array) -> tuple[Weighed, float]:
    """All of g moved by some logs [N] or [1]: weights, and what is to be added to all their logs alike."""
    if by.size == 1:
        return sides.sums["all"], float(by[0])
    return Weighed.over(clusters, Scaled(sides.of.total + by))[0][0], 0.0


def _counted(rows: RecipeRows) -> tuple[Array, Array]:
    """What blocks [B] add to the denominator of their batch, and what if only what is kept counted."""
    every, clusters = rows.rows, rows.rows.clusters
    if every.batch_column is None and rows.recipe.loss.aggregation is Aggregation.TOKEN_MEAN:
        tokens = every.once("loss tokens by block", lambda: clusters.sums(every["loss_tokens"]))
        return tokens, changed(rows).sums.kept
    rollouts = every.once("rollouts by block", lambda: clusters.sums(np.ones(every.rollouts)))
    if every.batch_column is not None or rows.recipe.loss.aggregation is Aggregation.TOKEN_SUM:
        return rollouts, rollouts
    return rollouts, clusters.sums(rows.kept > 0)


def _groups(rows: RecipeRows, kept: Gradients, base: Gradients) -> Figures:
    """Groups with gradient of both signs, before and after."""
    if "group_id" not in rows.rows:
        return {side: Figure.absent("the dump has no group_id") for side in ("kept", "total")}
    group = rows.rows.cluster_codes

    total = latest(rows.rows, "groups of base", _base_name(rows), lambda: base.groups_with_both(group))
    return {"kept": kept.groups_with_both(group), "total": total}


def _product_left(rows: RecipeRows, kept: _Summed) -> Figure:
    """Share of the kept gradient in rollouts weighted otherwise than by exp(S): by over a factor of 2, or in sign."""
    clusters, whole = rows.rows.clusters, kept.sums["all"]
    product, applied = rows.rows.log_ratio("sequence", rows.recipe.weight.pair), rows.log_mean_weight
    near = _LOG_TWO if rows.recipe.weight.sign > 0 else -math.inf
    sums = np.zeros(clusters.count)
    values, logs, others = (read_only(one, np.float64) for one in (whole.weights.values, product, applied))
    if not sum_apart(sums, clusters.block, values, logs, others, near) and whole.weights.log_sum > -math.inf:
        return Figure(0.0)
    return part_of(sums, whole, lambda: ~(np.abs(product - applied) <= near), "no gradient is left")


@compiled()
def sum_apart(sums: Any, block: Any, values: Any, logs: Any, others: Any, near: float) -> int:
    """Add values up by block where two logs are not near each other; return where the second is not -inf either.

    Args:
        sums: what to add to, float64 [B].
        block: the block of each row, int64 [N], no number of which is below 0.
        values: float64 [N], read only, as all that follow.
        logs: float64 [N].
        others: float64 [N].
        near: how far apart logs are near.
    """
    apart = 0
    for row in range(len(block)):
        alike = abs(logs[row] - others[row]) <= near
        sums[np.uint64(block[row])] += 0.0 if alike else values[row]
        apart += (not alike) & (others[row] > -math.inf)
    return apart


def _without_advantages(rows: RecipeRows) -> Figures:
    names = ("all", "positive", "negative", "survivors", "heaviest_rollout", "heaviest_percent")
    absent = Figure.absent(NO_ADVANTAGE)
    weights, clusters = weights_of(rows), rows.rows.clusters
    (weighed,), squares = Weighed.over(clusters, weights)
    size = log_size(weighed, squares)
    return {
        "effective_batch_size": {
            "value": size if rows.rows.rollouts else Figure.absent(NO_TOKENS),
            "basis": "weights",
            "base": Figure(rows.rows.rollouts),
        },
        "gradient_left": dict.fromkeys(names, absent),
        "groups_with_both_signs": {"kept": absent, "total": absent},
        "product_left": absent,
    }
