"""TRL's metrics: sampling/* (TRL 1.16.0 grpo_trainer; the raw ratio and frac_modified as in its pull request 5243).

TRL counts every loss token, a NaN logprob as ratio 1, and in the sequence modes every row, empty ones as ratio 1.
One rank is assumed: TRL averages the means of its ranks.
"""

from __future__ import annotations

import math

import numpy as np

from iscope.analysis.frameworks.trl_losses import loss_metrics
from iscope.analysis.numbers import Array, Scaled, exp_of, figure, from_log, log_of, share
from iscope.analysis.recipe_rows import RecipeRows
from iscope.analysis.rows import Rows
from iscope.model import Figure, Figures
from iscope.recipes.model import Level, Pair, bound_value
from iscope.recipes.trl import OFF_POLICY_MASK

_PREFIX = "sampling/"
_EMPTY = "no loss tokens"
_MIXED = "off-policy masking rejected rollouts, whose token weights are not kept apart"
_PAIR = Pair.TRAINER_INFERENCE


def metrics(rows: RecipeRows) -> Figures:
    """Every metric TRL logs for this correction and loss; without a correction no ratios."""
    named = {"sampling_logp_difference": rows.rows.once("trl differences", lambda: _differences(rows.rows))}
    if rows.recipe.weight.level != Level.NONE:
        of_tokens = rows.recipe.weight.level == Level.TOKEN
        ratios = _token_ratios(rows) if of_tokens else _sequence_ratios(rows)
        named |= {"importance_sampling_ratio": ratios[0], "raw_importance_sampling_ratio": ratios[1]}
    flat: Figures = {f"{_PREFIX}{name}/{stat}": value for name, stats in named.items() for stat, value in stats.items()}
    if rows.recipe.weight.level != Level.NONE:
        flat[f"{_PREFIX}frac_modified_importance_sampling_ratio"] = _modified(rows)
    return flat | loss_metrics(rows)


def _differences(rows: Rows) -> dict[str, Figure]:
    """Mean and largest abs(old - mu) over loss tokens, NaN left out, nats."""
    finite = rows.n - rows["nan_tokens"]
    if not finite.sum():
        return {"mean": Figure.absent(_EMPTY), "max": Figure.absent(_EMPTY)}
    largest = np.maximum(-rows.pair("log_ratio_min"), rows.pair("log_ratio_max"))[rows.n > 0].max()
    if largest >= np.finfo(np.float32).max:
        return {"mean": Figure.absent("infinite"), "max": Figure.absent("infinite")}
    return {"mean": share(rows.pair_total("abs_sum"), int(finite.sum())), "max": Figure(float(largest))}


def _token_ratios(rows: RecipeRows) -> tuple[dict[str, Figure], dict[str, Figure]]:
    filled = rows.rows.n > 0
    if not filled.any():
        empty = dict.fromkeys(("min", "mean", "max"), Figure.absent(_EMPTY))
        return empty, empty
    tokens = rows.rows.tokens
    applied = {
        "min": from_log(float(rows["log_weight_min"][filled].min())),
        "mean": figure(float(rows["weight_sum"].sum()) / tokens),
        "max": from_log(float(rows["log_weight_max"][filled].max())),
    }
    if _off_policy_rejected(rows).any():
        applied = dict.fromkeys(applied, Figure.absent(_MIXED))
    raw = {
        "min": from_log(float(rows.rows.pair("log_ratio_min", _PAIR)[filled].min())),
        "mean": figure(rows.rows.pair_total("weight_sum", _PAIR) / tokens),
        "max": from_log(float(rows.rows.pair("log_ratio_max", _PAIR)[filled].max())),
    }
    return applied, raw


def _sequence_ratios(rows: RecipeRows) -> tuple[dict[str, Figure], dict[str, Figure]]:
    raw = rows.rows.once("trl raw ratios", lambda: _of_logs(rows.rows.log_ratio(Level.SEQUENCE, _PAIR)))
    return _of_logs(_frozen_log_weight(rows)), raw


def _frozen_log_weight(rows: RecipeRows) -> Array:
    """Log of each rollout's weight as TRL logs it: before off-policy masking, which comes with the loss."""
    rejected = _off_policy_rejected(rows)
    if not rejected.any():
        return rows["log_weight"]
    rule, cut = rows.recipe.weight, rows["truncated"]
    low, high = log_of(np.array([bound_value(bound) or 0.0 for bound in (rule.low, rule.high)]))
    log = np.where(cut < 0, low, np.where(cut > 0, high, rows.rows.log_ratio(Level.SEQUENCE, _PAIR)))
    for index, mask in enumerate(rows.recipe.filters):
        if mask.name != OFF_POLICY_MASK:
            log = np.where(rows[f"rejected{index}"] != 0, -np.inf, log)
    return np.where(rejected, log, rows["log_weight"])


def _off_policy_rejected(rows: RecipeRows) -> Array:
    """Whether off-policy masking rejected each rollout."""
    names = [rule.name for rule in rows.recipe.filters]
    if OFF_POLICY_MASK not in names:
        return np.zeros(rows.rows.rollouts, dtype=np.bool_)
    return np.asarray(rows.rejected(names.index(OFF_POLICY_MASK))[1] > 0)


def _of_logs(logs: Array) -> dict[str, Figure]:
    if not logs.size:
        return dict.fromkeys(("min", "mean", "max"), Figure.absent("no rollouts"))
    return {
        "min": from_log(float(logs.min())),
        "mean": from_log(Scaled(logs).log_sum - math.log(logs.size)),
        "max": from_log(float(logs.max())),
    }


def _modified(rows: RecipeRows) -> Figure:
    """Share of loss tokens (token modes) or rows (sequence modes) whose final ratio differs from the raw one."""
    if rows.per_token and _off_policy_rejected(rows).any():
        return Figure.absent(_MIXED)
    if rows.per_token:
        return share(int(rows["modified"].sum()), rows.rows.tokens, _EMPTY)
    final, raw = _frozen_log_weight(rows), rows.rows.log_ratio(Level.SEQUENCE, _PAIR)
    apart = np.flatnonzero(final != raw)
    with np.errstate(over="ignore"):
        changed = int(np.count_nonzero(exp_of(final[apart]) != exp_of(raw[apart])))
    return share(changed, rows.rows.rollouts, "no rollouts")
