"""Columns of a recipe: what it makes of the tokens of each rollout."""

from __future__ import annotations

import torch
from torch import Tensor

from iscope.ledger.applied import GRADIENT, count_applied, measure_applied
from iscope.ledger.gradient import by_sign, can_differentiate, is_even, total_by_sign
from iscope.ledger.histogram import Counts
from iscope.ledger.split import Columns, Split
from iscope.recipes.model import BoundRecipe
from iscope.replay.correction import Correction, correct
from iscope.replay.losses import loss_terms, multiplies_signal


def measure_recipe(split: Split, recipe: BoundRecipe, base: int) -> tuple[Columns, Counts | None]:
    """Measure a recipe on a batch.

    Args:
        split: the tokens.
        recipe: the recipe.
        base: index of its uncorrected loss among the plan's.

    Returns:
        Its columns [N], and the histogram of the applied weights where they differ within a rollout. A recipe that
        weights and rejects whole rollouts needs neither token sums nor a histogram: all follows from ``log_weight``.
    """
    rest = split.rest
    correction = correct(rest, recipe)
    if not correction.per_token and recipe.loss.linear_in_weight:
        return _rollout_columns(correction), None
    columns = measure_applied(split, recipe, correction)
    weighted = columns.pop(GRADIENT)
    for index, rejection in enumerate(correction.rejections):
        columns[f"rejected{index}_low"] = _count(split, rejection.low, rejection.per_token)
        columns[f"rejected{index}_high"] = _count(split, rejection.high, rejection.per_token)
    if can_differentiate(rest, recipe.loss):
        columns |= _gradient(split, recipe, correction, base, weighted)
    return columns, count_applied(split, recipe, correction, columns["kept"])


def _rollout_columns(correction: Correction) -> Columns:
    weight = correction.weight
    log = weight.log
    if correction.keep_rollout is not None:
        log = log.masked_fill(~correction.keep_rollout, float("-inf"))
    columns = {"log_weight": log, "truncated": _sides(weight.low, weight.high)}
    for index, rejection in enumerate(correction.rejections):
        both = rejection.low & rejection.high
        columns[f"rejected{index}"] = _sides(rejection.low, rejection.high).masked_fill_(both, 2)
    if correction.keep_rollout is not None:
        columns["kept"] = correction.keep_rollout
    return columns


def _sides(low: Tensor, high: Tensor) -> Tensor:
    """Int8 [N]: -1 below, 1 above, 0 neither or both."""
    return high.view(torch.int8) - low.view(torch.int8)


def _count(split: Split, flags: Tensor, per_token: bool) -> Tensor:
    """Flagged tokens of each rollout; a flag of a rollout flags all its tokens."""
    if per_token:
        return split.rest.segments.count(flags)
    return flags * (split.bulk.n + split.rest.segments.lengths)


def _gradient(split: Split, recipe: BoundRecipe, correction: Correction, base: int, weighted: Tensor) -> Columns:
    """Gradient by sign: inside the screen the uncorrected one, times the plain weight of the rule.

    ``weighted`` is abs(w) (1 - p) summed over the tokens outside it, float64 [N].
    """
    rest, weight, loss = split.rest, correction.weight, recipe.loss
    if is_even(rest, loss) and multiplies_signal(rest, loss):
        found = total_by_sign(rest, loss, weighted)
    else:
        terms = loss_terms(rest, recipe, correction)
        found = by_sign(rest, loss, terms.coefficient.abs() * rest.uncertainty)
    pair = rest.resolve(recipe.weight.pair) if weight.per_token else None
    inside = split.bulk.gradients.get((base, pair))
    if inside is None:
        return found
    for name, total in inside.items():
        kept = total if weight.per_token else total * weight.log.exp()
        if correction.keep_rollout is not None:
            kept = kept.masked_fill(~correction.keep_rollout, 0.0)
        found[name] = found[name] + kept
    return found
