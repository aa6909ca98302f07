"""The figures of many settings from sums over the dump: the same as those of a recipe's report, without intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from iscope.analysis.figures.gradient import NO_GRADIENT
from iscope.analysis.numbers import NO_ADVANTAGE, NO_TOKENS, Array, Scaled, figure, from_log, log_of, share
from iscope.analysis.recipe_rows import RecipeRows
from iscope.ledger.sweep.batch import sign_classes
from iscope.ledger.sweep.intervals import CLASSES
from iscope.model import Figure, Figures, Node
from iscope.recipes.model import Aggregation, BoundRecipe

SIGNS = ("positive", "zero", "negative")
_NOT_SUMMED = "not kept for each setting of a sweep; name the setting without a sweep"


@dataclass(frozen=True)
class Changed:
    """Tokens and rollouts that settings change, int64 [CLASSES, S]: by sign of the advantage."""

    tokens: Array
    rollouts: Array


@dataclass(frozen=True)
class Fired:
    """What a filter found outside its bounds, int64 [S] each."""

    name: str
    low: Array
    high: Array
    rollouts_low: Array
    rollouts_high: Array


@dataclass(frozen=True)
class Gradient:
    """Gradient of S settings, float64 [S] each, over exp(scale): by sign, its squares, and what is off the product."""

    positive: Array
    negative: Array
    squares: Array
    away: Array
    scale: Array


@dataclass(frozen=True)
class Totals:
    """Sums over a dump for S settings.

    Attributes:
        masked: rejected.
        truncated: cut or raised to a bound.
        modified: either.
        truncated_low: tokens raised to the lower bound [S].
        truncated_high: tokens cut to the upper bound [S].
        filters: what each filter found [S].
        weight: sum of the applied weights of tokens, and of their squares [S], over one scale.
        rollout_weight: the same of the mean weight of rollouts.
        k3: over kept and over rejected tokens, nats [S].
        gradient: None without advantages.
        groups: groups with gradient of both signs [S]; None without groups.
    """

    masked: Changed
    truncated: Changed
    modified: Changed
    truncated_low: Array
    truncated_high: Array
    filters: tuple[Fired, ...]
    weight: tuple[Array, Array]
    rollout_weight: tuple[Array, Array]
    k3: tuple[Array, Array]
    gradient: Gradient | None
    groups: Array | None


@dataclass(frozen=True)
class Whole:
    """What all settings of a part share.

    Attributes:
        rows: the part.
        signs: class of each rollout.
        tokens: scored tokens by class.
        rollouts: rollouts by class.
        base: log of the gradient uncorrected, by sign; None without advantages.
        base_size: effective batch size uncorrected.
        base_groups: groups with both signs, uncorrected; None without groups.
    """

    rows: RecipeRows
    signs: Array
    tokens: Array
    rollouts: Array
    base: tuple[float, float] | None = None
    base_size: float = 0.0
    base_groups: int | None = None
    signed: bool = field(default=False)

    @classmethod
    def of(cls, rows: RecipeRows, base: tuple[Array, Array] | None) -> Whole:
        """Sum a part up; ``base`` is the log of the uncorrected gradient of each rollout, by sign."""
        signs = sign_classes(rows.rows["advantage"]) if "advantage" in rows.rows else None
        signed = signs is not None
        signs = np.full(rows.rows.rollouts, CLASSES - 1) if signs is None else signs
        tokens = np.bincount(signs, rows.rows.n, minlength=CLASSES).astype(np.int64)
        rollouts = np.bincount(signs, minlength=CLASSES)
        if base is None:
            return cls(rows, signs, tokens, rollouts, signed=signed)
        size = Scaled(np.logaddexp(*base)).effective_size()
        totals = Scaled(base[0]).log_sum, Scaled(base[1]).log_sum
        groups = None if "group_id" not in rows.rows else groups_with_both(rows, *(log > -np.inf for log in base))
        return cls(rows, signs, tokens, rollouts, totals, size, groups, signed)


def groups_with_both(rows: RecipeRows, positive: Array, negative: Array) -> int:
    """Groups with a rollout of either flag [N]."""
    group = rows.rows.cluster_codes
    present = [np.bincount(group, weights=flags) > 0 for flags in (positive, negative)]
    return int((present[0] & present[1]).sum())


def setting_figures(whole: Whole, totals: Totals, place: int, recipe: BoundRecipe) -> Figures:
    """The figures of a setting, by their names in a recipe's entry of the report."""
    masked = _changed(whole, totals.masked, place)
    masked["by_filter"] = [_fired(entry, place) for entry in totals.filters]
    truncated = _changed(whole, totals.truncated, place)
    truncated |= {"low": int(totals.truncated_low[place]), "high": int(totals.truncated_high[place])}
    rejected, rejected_rollouts = (int(part[:, place].sum()) for part in (totals.masked.tokens, totals.masked.rollouts))
    tokens, rollouts = int(whole.tokens.sum()), int(whole.rollouts.sum())
    kept = tokens - rejected
    return {
        "masked": masked,
        "truncated": truncated,
        "modified": _changed(whole, totals.modified, place),
        "kept": {"tokens": kept, "rollouts": rollouts - rejected_rollouts},
        "ess": _sizes(totals, place, tokens, rollouts),
        **_gradient(whole, totals, place, recipe, kept),
        "masked_mismatch_kl": _kl(float(totals.k3[1][place]), rejected, "nothing was masked", tokens),
        "unmasked_mismatch_kl": _kl(float(totals.k3[0][place]), kept, "everything was masked", tokens),
    }


def _changed(whole: Whole, changed: Changed, place: int) -> Figures:
    tokens, rollouts = changed.tokens[:, place], changed.rollouts[:, place]
    counts = np.stack([tokens, rollouts, whole.tokens, whole.rollouts], axis=1)
    found = _share(*counts.sum(0).tolist(), why=NO_TOKENS)
    if whole.signed:
        why = "no rollouts with this sign of the advantage" if whole.rollouts.sum() else NO_TOKENS
        found["by_sign"] = {sign: _share(*counts[index].tolist(), why=why) for index, sign in enumerate(SIGNS)}
    return found


def _share(tokens: int, rollouts: int, of_tokens: int, of_rollouts: int, *, why: str) -> Figures:
    return {
        "tokens": tokens,
        "rollouts": rollouts,
        "token_fraction": share(tokens, of_tokens, why),
        "rollout_fraction": share(rollouts, of_rollouts, why),
    }


def _fired(entry: Fired, place: int) -> Node:
    names = ("low", "high", "rollouts_low", "rollouts_high")
    return {"name": entry.name} | {name: int(getattr(entry, name)[place]) for name in names}


def _sizes(totals: Totals, place: int, tokens: int, rollouts: int) -> Figures:
    found: Figures = {}
    for name, sums, count, empty in (
        ("token", totals.weight, tokens, NO_TOKENS),
        ("rollout", totals.rollout_weight, rollouts, "no rollouts with scored tokens"),
    ):
        first, second = float(sums[0][place]), float(sums[1][place])
        size = first / second * first if second > 0 else 0.0
        found[name] = figure(size)
        found[f"{name}_fraction"] = share(size, count, empty)
    return found


def _kl(k3: float, tokens: int, why: str, scored: int) -> Figures:
    return {
        "token": share(k3, tokens, why if scored else NO_TOKENS),
        "rollout_mean": Figure.absent(_NOT_SUMMED if scored else NO_TOKENS),
    }


def _gradient(whole: Whole, totals: Totals, place: int, recipe: BoundRecipe, kept: int) -> Figures:
    found = totals.gradient
    if found is None or whole.base is None:
        return _without(totals, place, int(whole.rollouts.sum()))
    scale = float(found.scale[place])
    sides = log_of(np.array([found.positive[place], found.negative[place]])) + scale
    both, base = float(np.logaddexp.reduce(sides)), float(np.logaddexp.reduce(whole.base))
    squares, total = float(found.squares[place]), math.exp(both - scale) if both > -math.inf else 0.0
    size = total / squares * total if squares > 0 else 0.0
    left = _ratio(both, base, NO_GRADIENT if whole.rollouts.sum() else NO_TOKENS)
    away = float(found.away[place])
    return {
        "effective_batch_size": {
            "value": size,
            "basis": "gradient",
            "base": Figure(whole.base_size),
        },
        "gradient_left": {
            "all": left,
            "positive": _ratio(float(sides[0]), whole.base[0], "no gradient with A > 0"),
            "negative": _ratio(float(sides[1]), whole.base[1], "no gradient with A < 0"),
            "survivors": _survivors(whole, recipe, left, kept),
            "heaviest_rollout": Figure.absent(_NOT_SUMMED),
            "heaviest_percent": Figure.absent(_NOT_SUMMED),
        },
        "groups_with_both_signs": _groups(whole, totals, place),
        "product_left": share(away, total, "no gradient is left"),
    }


def _ratio(part: float, whole: float, why: str) -> Figure:
    return Figure.absent(why) if whole == -math.inf else from_log(part - whole)


def _groups(whole: Whole, totals: Totals, place: int) -> Figures:
    if totals.groups is None or whole.base_groups is None:
        absent = Figure.absent("the dump has no group_id")
        return {"kept": absent, "total": absent}
    return {"kept": int(totals.groups[place]), "total": whole.base_groups}


def _survivors(whole: Whole, recipe: BoundRecipe, left: Figure, kept: int) -> Figure:
    """Gradient left over what is kept, where the loss is a sum over tokens, or a mean over those of one batch."""
    if not kept:
        return Figure.absent("everything was masked")
    rows, aggregation = whole.rows.rows, recipe.loss.aggregation
    if aggregation is Aggregation.TOKEN_SUM or left.value is None:
        return left
    if aggregation is not Aggregation.TOKEN_MEAN or rows.batch_column is not None:
        return Figure.absent(_NOT_SUMMED)
    return from_log(math.log(left.value) + math.log(max(1, rows.batch_loss_tokens) / kept)) if left.value else left


def _without(totals: Totals, place: int, rollouts: int) -> Figures:
    first, second = (float(part[place]) for part in totals.rollout_weight)
    size = Figure(first / second * first if second > 0 else 0.0) if rollouts else Figure.absent(NO_TOKENS)
    absent = Figure.absent(NO_ADVANTAGE)
    names = ("all", "positive", "negative", "survivors", "heaviest_rollout", "heaviest_percent")
    return {
        "effective_batch_size": {
            **size.to_dict(),
            "basis": "weights",
            "base": Figure(rollouts),
        },
        "gradient_left": dict.fromkeys(names, absent),
        "groups_with_both_signs": {"kept": absent, "total": absent},
        "product_left": absent,
    }
