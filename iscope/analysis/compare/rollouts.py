"""Totals of settings whose rules act on whole rollouts: from the ledger alone, on the rows of their token part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch

from iscope.analysis.compare.totals import Changed, Fired, Gradient, Totals, Whole
from iscope.analysis.figures.gradient import Gradients
from iscope.analysis.numbers import Array, exp_of, log_of
from iscope.ledger.sweep.families import rollout_filters, rollout_part
from iscope.ledger.sweep.intervals import CLASSES
from iscope.recipes.model import BoundRecipe, Pair, WeightRule
from iscope.replay.correction import Correction, correct
from iscope.replay.gathered import Gathered
from iscope.replay.segments import Segments
from iscope.replay.view import TokenView

_PLAIN = WeightRule()
_LOG_TWO = float(np.log(2.0))
# Cells of settings x rollouts at a time.
_CELLS = 2**21
# Logs that are further apart are not summed over one scale: their squares would leave float64.
_WIDEST = 300.0
_FIRED = ("low", "high", "rollouts_low", "rollouts_high")


def rollout_totals(
    whole: Whole, kept: Gradients | None, settings: Sequence[BoundRecipe], precision: Literal["float32", "float64"]
) -> Totals:
    """Return the totals of S settings that share a token part.

    Args:
        whole: the part.
        kept: its gradient; None without advantages.
        settings: the settings.
        precision: of the decisions.
    """
    part = _Part.of(whole, kept, settings[0].weight.pair)
    view = _view(whole, settings, torch.float64 if precision == "float64" else torch.float32)
    found: list[_Summed | None] = [None] * len(settings)
    rules: dict[WeightRule, list[int]] = {}
    done: dict[int, Correction] = {}
    step = max(1, _CELLS // max(1, whole.rows.rows.rollouts))
    bodies = [rollout_part(setting) or replace(setting, weight=_PLAIN, filters=()) for setting in settings]
    for index, body in enumerate(bodies):
        rules.setdefault(body.weight, []).append(index)
    for members in rules.values():
        weighted = None
        for start in range(0, len(members), step):
            block = members[start : start + step]
            for index in block:
                done[index] = correct(view, bodies[index])
            weighted = weighted or part.weighted(done[block[0]])
            for index, summed in zip(block, weighted.sums([done[index] for index in block]), strict=True):
                found[index] = replace(summed, filters=_fired(whole, settings[index], done.pop(index)))
    return _stacked([one for one in found if one is not None])


def _view(whole: Whole, settings: Sequence[BoundRecipe], precision: torch.dtype) -> TokenView:
    """The rollouts without their tokens: enough for rules on S and G, which the ledger has."""
    rows = whole.rows.rows
    offsets = np.zeros(rows.rollouts + 1, dtype=np.int64)
    np.cumsum(rows.n, out=offsets[1:])
    nothing = torch.zeros(0, dtype=precision)
    pairs = {setting.weight.pair for setting in settings} | {rule.pair for s in settings for rule in s.filters}
    columns = {"trainer": nothing, "inference": nothing}
    if rows.resolve(Pair.CURRENT_INFERENCE) is not Pair.TRAINER_INFERENCE:
        columns["current"] = nothing
    view = TokenView(Segments(torch.from_numpy(offsets)), Gathered(columns))
    for pair in pairs:
        if f"{rows.resolve(pair)}:log_ratio_sum" in rows:
            view.remember_log_ratio_sum(pair, torch.tensor(rows.pair("log_ratio_sum", pair)))
    return view


@dataclass(frozen=True)
class _Summed:
    """Sums of one setting: counts by class, then numbers."""

    masked: tuple[Array, Array]
    truncated: tuple[Array, Array]
    modified: tuple[Array, Array]
    truncated_low: int
    truncated_high: int
    numbers: dict[str, float]
    groups: int | None
    filters: tuple[Fired, ...] = ()


@dataclass(frozen=True)
class _Part:
    """The rows of a token part, and their order by class of the advantage's sign."""

    whole: Whole
    kept: Gradients | None
    pair: Pair
    order: Array

    @classmethod
    def of(cls, whole: Whole, kept: Gradients | None, pair: Pair) -> _Part:
        return cls(whole, kept, pair, np.argsort(whole.signs, kind="stable"))

    def weighted(self, correction: Correction) -> _Weighted:
        weight = correction.weight
        return _Weighted(self, weight.log.numpy(), weight.low.numpy(), weight.high.numpy())


@dataclass(frozen=True)
class _Weighted:
    """A part under one weight rule: what settings that differ in their filters alone share.

    Attributes:
        part: the part.
        log: log of the rollout's weight [N].
        low: rollouts raised to the lower bound [N].
        high: rollouts cut to the upper bound [N].
    """

    part: _Part
    log: Array
    low: Array
    high: Array

    def sums(self, corrections: Sequence[Correction]) -> list[_Summed]:
        """Sum what each correction keeps."""
        rows = self.part.whole.rows.rows
        keep = np.ones((len(corrections), rows.rollouts), dtype=bool)
        for place, correction in enumerate(corrections):
            if correction.keep_rollout is not None:
                keep[place] = correction.keep_rollout.numpy()
        counts, numbers = self._counts(keep), self._numbers(keep)
        groups = self._groups(keep)
        truncated = self._truncated()
        return [
            _Summed(
                masked=(counts["masked"][place], counts["masked_rollouts"][place]),
                truncated=truncated[:2],
                modified=(counts["modified"][place], counts["modified_rollouts"][place]),
                truncated_low=truncated[2],
                truncated_high=truncated[3],
                numbers={name: float(values[place]) for name, values in numbers.items()},
                groups=None if groups is None else int(groups[place]),
            )
            for place in range(len(corrections))
        ]

    def _truncated(self) -> tuple[Array, Array, int, int]:
        rows, signs, n = self.part.whole.rows, self.part.whole.signs, self.part.whole.rows.rows.n
        own = bool(self.low.any() or self.high.any())
        low, high = (n * self.low, n * self.high) if own else (rows.truncated_low, rows.truncated_high)
        tokens = low + high
        by_class = np.bincount(signs, tokens, minlength=CLASSES), np.bincount(signs, tokens > 0, minlength=CLASSES)
        return by_class[0].astype(np.int64), by_class[1].astype(np.int64), int(low.sum()), int(high.sum())

    def _counts(self, keep: Array) -> dict[str, Array]:
        """Masked and modified tokens and rollouts, int64 [B, CLASSES]; exact, as float64 holds whole numbers."""
        rows, n = self.part.whole.rows, self.part.whole.rows.rows.n.astype(np.float64)
        plain = ~(self.low | self.high)
        left = np.stack(
            [rows.kept, rows.kept > 0, (n - rows.modified) * plain, (rows.modified == 0) & plain], axis=1
        ).astype(np.float64)
        found = np.stack([_product(keep[:, one], left[one]) for one in self._classes()], axis=1)
        tokens, rollouts = self.part.whole.tokens, self.part.whole.rollouts
        names = ("masked", "masked_rollouts", "modified", "modified_rollouts")
        whole = (tokens, rollouts, tokens, rollouts)
        kept = found.astype(np.int64)
        return {name: of - kept[:, :, place] for place, (name, of) in enumerate(zip(names, whole, strict=True))}

    def _classes(self) -> list[Array]:
        order = self.part.order
        edges = np.cumsum(self.part.whole.rollouts)[:-1]
        return np.split(order, edges)

    def _numbers(self, keep: Array) -> dict[str, Array]:
        rows = self.part.whole.rows
        n, k3 = rows.rows.n, rows.rows.pair("k3_sum", rows.recipe.weight.pair)
        found = dict(
            zip(("k3_kept", "k3_of_kept"), _product(keep, _columns(rows.k3_kept, rows.k3_masked)).T, strict=True)
        )
        found["k3_masked"] = found.pop("k3_of_kept") + _product(~keep, _columns(k3))[:, 0]
        mean = rows.log_mean_weight + self.log
        if rows.per_token:
            tokens = log_of(rows["weight_sum"]) + self.log, log_of(rows["weight_sq"]) + 2 * self.log
        else:
            tokens = np.log(n) + mean, np.log(n) + 2 * mean
        for name, logs in (("weight", tokens), ("rollout_weight", (mean, 2 * mean))):
            sums_of, _ = _scaled_sums(keep, [logs[0]], [logs[1]])
            found[name], found[f"{name}_sq"] = sums_of
        if self.part.kept is None:
            return found
        positive, negative = self.part.kept.positive + self.log, self.part.kept.negative + self.log
        both = np.logaddexp(positive, negative)
        away = ~(np.abs(rows.rows.log_ratio("sequence", self.part.pair) - mean) <= _LOG_TWO)
        off = np.where(away, both, -np.inf)
        sums_of, scale = _scaled_sums(keep, [positive, negative, off], [2 * both])
        names = ("positive", "negative", "away", "gradient_sq")
        return found | dict(zip(names, sums_of, strict=True)) | {"scale": scale}

    def _groups(self, keep: Array) -> Array | None:
        """Groups that keep gradient of both signs [B]."""
        rows, kept = self.part.whole.rows.rows, self.part.kept
        if "group_id" not in rows or kept is None:
            return None
        code, weighs = rows.cluster_codes, self.log > -np.inf
        sides = [np.flatnonzero((logs > -np.inf) & weighs) for logs in (kept.positive, kept.negative)]
        both = np.intersect1d(code[sides[0]], code[sides[1]])
        if not both.size:
            return np.zeros(len(keep), dtype=np.int64)
        left = [_any_of_group(keep, side[np.isin(code[side], both)], code) for side in sides]
        return np.asarray((left[0] & left[1]).sum(1))


def _any_of_group(keep: Array, chosen: Array, code: Array) -> Array:
    """Whether any of some rollouts of each group is kept, bool [B, G], groups in rising order."""
    ordered = chosen[np.argsort(code[chosen], kind="stable")]
    starts = np.flatnonzero(np.diff(code[ordered], prepend=-1))
    return np.asarray(np.logical_or.reduceat(keep[:, ordered], starts, axis=1))


def _columns(*columns: Array) -> Array:
    return np.stack(columns, axis=1).astype(np.float64)


def _product(keep: Array, columns: Array) -> Array:
    """Sums of columns [N, k] over what each setting keeps, bool [B, N]."""
    return np.asarray(keep.astype(np.float64) @ columns)


def _scaled_sums(keep: Array, firsts: list[Array], squares: list[Array]) -> tuple[list[Array], Array]:
    """Sums of columns given by their logs over what each setting keeps, over one scale per setting.

    Args:
        keep: bool [B, N].
        firsts: logs [N].
        squares: logs of squares [N], summed over twice the scale.

    Returns:
        The sums [B] of each, and the log of the scale [B].
    """
    every = np.concatenate(firsts)
    finite = every[np.isfinite(every)]
    if not finite.size or finite.max() - finite.min() <= _WIDEST:
        top = float(finite.max(initial=-np.inf)) if finite.size else 0.0
        columns = [*(exp_of(log - top) for log in firsts), *(exp_of(log - 2 * top) for log in squares)]
        return [*_product(keep, _columns(*columns)).T], np.full(len(keep), top)
    scales, sums = np.zeros(len(keep)), np.zeros((len(keep), len(firsts) + len(squares)))
    for place, kept in enumerate(keep):
        top = max((float(log[kept].max(initial=-np.inf)) for log in firsts), default=-np.inf)
        scales[place] = top if np.isfinite(top) else 0.0
        sums[place, : len(firsts)] = [np.exp(log[kept] - scales[place]).sum() for log in firsts]
        sums[place, len(firsts) :] = [np.exp(log[kept] - 2 * scales[place]).sum() for log in squares]
    return [*sums.T], scales


def _fired(whole: Whole, setting: BoundRecipe, correction: Correction) -> tuple[Fired, ...]:
    """What each filter found, those on tokens as counted for the part."""
    rows, n = whole.rows, whole.rows.rows.n
    own, of_part = iter(correction.rejections), iter(range(len(rows.recipe.filters)))
    found = []
    for rule, of_rollouts in zip(setting.filters, rollout_filters(setting), strict=True):
        if of_rollouts:
            rejection = next(own)
            low, high = n * rejection.low.numpy(), n * rejection.high.numpy()
        else:
            low, high = rows.rejected(next(of_part))
        counts = [np.array([int(part.sum())]) for part in (low, high, low > 0, high > 0)]
        found.append(Fired(rule.name, *counts))
    return tuple(found)


def _stacked(found: Sequence[_Summed]) -> Totals:
    def changed(name: str) -> Changed:
        pairs = [getattr(one, name) for one in found]
        return Changed(np.stack([pair[0] for pair in pairs], axis=1), np.stack([pair[1] for pair in pairs], axis=1))

    def numbers(name: str) -> Array:
        return np.array([one.numbers[name] for one in found])

    gradient = None
    if "positive" in found[0].numbers:
        gradient = Gradient(*map(numbers, ("positive", "negative", "gradient_sq", "away", "scale")))
    groups = [one.groups for one in found if one.groups is not None]
    fired = [
        Fired(first.name, *(np.concatenate([getattr(one.filters[place], part) for one in found]) for part in _FIRED))
        for place, first in enumerate(found[0].filters)
    ]
    return Totals(
        masked=changed("masked"),
        truncated=changed("truncated"),
        modified=changed("modified"),
        truncated_low=np.array([one.truncated_low for one in found]),
        truncated_high=np.array([one.truncated_high for one in found]),
        filters=tuple(fired),
        weight=(numbers("weight"), numbers("weight_sq")),
        rollout_weight=(numbers("rollout_weight"), numbers("rollout_weight_sq")),
        k3=(numbers("k3_kept"), numbers("k3_masked")),
        gradient=gradient,
        groups=np.array(groups) if groups else None,
    )
