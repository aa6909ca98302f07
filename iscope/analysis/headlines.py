"""What a recipe leaves of each part of the dump: the figures that decide between recipes, for all parts at once."""

from __future__ import annotations

import math

from iscope.analysis.figures.gradient import NO_ADVANTAGE, NO_GRADIENT, gradients
from iscope.analysis.intervals import scaled
from iscope.analysis.intervals.figures import kish, quotient
from iscope.analysis.numbers import Array, from_log, share
from iscope.analysis.parts import Parts
from iscope.analysis.rows import RecipeRows
from iscope.model import Figure, Figures


def headline(rows: RecipeRows, parts: Parts) -> list[Figures]:
    """One entry per part: effective batch size, gradient left, kept, share of masked rollouts.

    The figures are those of the recipe's report over the rollouts of the part; the recipe must have been replayed.
    """
    rows_of = zip(
        _gradient(rows, parts),
        parts.sum(rows.kept).tolist(),
        parts.sum(rows.kept > 0).tolist(),
        _masked(rows, parts),
        strict=True,
    )
    return [
        {
            "spec": rows.recipe.spec,
            **gradient,
            "kept": {"tokens": tokens, "rollouts": kept},
            "masked": {"rollout_fraction": masked},
        }
        for gradient, tokens, kept, masked in rows_of
    ]


def _masked(rows: RecipeRows, parts: Parts) -> list[Figure]:
    shares = zip(parts.sum(rows.kept == 0).tolist(), parts.sizes.tolist(), strict=True)
    return [share(masked, rollouts) for masked, rollouts in shares]


def _gradient(rows: RecipeRows, parts: Parts) -> list[Figures]:
    sides = gradients(rows)
    if sides is None:
        absent: Figures = dict.fromkeys(("all", "positive", "negative"), Figure.absent(NO_ADVANTAGE))
        sizes = zip(_sizes(rows.log_mean_weight, parts), parts.sizes.tolist(), strict=True)
        return [
            {"effective_batch_size": _size(size, "weights", Figure(float(rollouts))), "gradient_left": absent}
            for size, rollouts in sizes
        ]
    kept, base = sides
    columns = zip(
        _sizes(kept.total, parts),
        _sizes(base.total, parts),
        _ratios(kept.total, base.total, parts, NO_GRADIENT),
        _ratios(kept.positive, base.positive, parts, "no gradient with A > 0"),
        _ratios(kept.negative, base.negative, parts, "no gradient with A < 0"),
        strict=True,
    )
    return [
        {
            "effective_batch_size": _size(size, "gradient", uncorrected),
            "gradient_left": {"all": both, "positive": positive, "negative": negative},
        }
        for size, uncorrected, both, positive, negative in columns
    ]


def _size(size: Figure, basis: str, base: Figure) -> Figures:
    return {**size.to_dict(), "basis": basis, "base": base}


def _sizes(logs: Array, parts: Parts) -> list[Figure]:
    """Kish's effective sample size of weights given by their logs [N]."""
    (weights,) = scaled(logs)
    return parts.bounded([Figure(size) for size in parts.effective_size(logs).tolist()], kish, (weights, weights**2))


def _ratios(part: Array, whole: Array, parts: Parts, empty: str) -> list[Figure]:
    absent = Figure.absent(empty)
    logs = zip(parts.log_sum_exp(part).tolist(), parts.log_sum_exp(whole).tolist(), strict=True)
    found = [absent if below == -math.inf else from_log(above - below) for above, below in logs]
    return parts.bounded(found, quotient, scaled(part, whole))
