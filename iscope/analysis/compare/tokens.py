"""Totals of the settings of a token family, from its sums by interval."""

from __future__ import annotations

import numpy as np

from iscope.analysis.compare.totals import Changed, Fired, Gradient, Totals
from iscope.analysis.denominators import denominators
from iscope.analysis.numbers import Array
from iscope.analysis.recipe_rows import RecipeRows
from iscope.ledger.sweep.families import TokenFamily
from iscope.ledger.sweep.intervals import ROLLOUT_SUMS, FamilySums, chosen_levels, relative_scale
from iscope.ledger.sweep.levels import QUANTITIES, inward, outward

# Cells of settings x groups at a time.
_CELLS = 2**22


def token_totals(rows: RecipeRows, family: TokenFamily, sums: FamilySums, *, gradient: bool) -> Totals:
    """Return the totals of the S settings of a family.

    Args:
        rows: the recipe with the innermost bounds.
        family: the family.
        sums: its sums over the dump.
        gradient: whether it has what the loss multiplies its scores with.
    """
    low, high = chosen_levels(family)
    counted = _Sides(family, low, high)
    beyond_low, beyond_high = counted.beyond(sums.counts)
    beyond = beyond_low + beyond_high
    touched = Changed(beyond, _rollouts_touched(sums, sums.highest, low, high))
    masks = family.kind == "mask"
    emptied = _rollouts_emptied(sums.lowest, low, high)
    cut = sums.cut.sum(0)
    own = Changed(_for_all(cut.sum(1), low.size), _for_all((sums.highest - sums.uncut).sum((1, 2)), low.size))
    modified = Changed(beyond + counted.within(cut), _rollouts_touched(sums, sums.uncut, low, high))
    of_quantity = dict(zip(QUANTITIES, sums.sums, strict=True))
    by_rollout = dict(zip(ROLLOUT_SUMS, sums.settings, strict=True))
    in_bounds = {name: counted.within(of_quantity[name]) for name in QUANTITIES}
    if not masks:
        in_bounds |= counted.at_the_bounds(sums.counts.sum(0), of_quantity, in_bounds)
    k3 = of_quantity["k3"]
    k3_low, k3_high = counted.beyond(k3)
    return Totals(
        masked=Changed(beyond, emptied) if masks else Changed(np.zeros_like(beyond), np.zeros_like(emptied)),
        truncated=own if masks else touched,
        modified=modified if masks else touched,
        truncated_low=np.full_like(low, sums.cut[0].sum()) if masks else beyond_low.sum(0),
        truncated_high=np.full_like(high, sums.cut[1].sum()) if masks else beyond_high.sum(0),
        filters=_fired(family, sums, beyond_low, beyond_high, low, high) if masks else (),
        weight=(in_bounds["weight"], in_bounds["weight_sq"]),
        rollout_weight=(by_rollout["mean_weight"], by_rollout["mean_weight_sq"]),
        k3=(in_bounds["k3"], k3_low + k3_high) if masks else (np.full(low.size, k3.sum()), np.zeros(low.size)),
        gradient=Gradient(
            in_bounds["positive"],
            in_bounds["negative"],
            by_rollout["gradient_sq"],
            by_rollout["away"],
            np.full(low.size, _gradient_scale(rows)),
        )
        if gradient
        else None,
        groups=_groups(sums, low, high) if "group_id" in rows.rows else None,
    )


def _gradient_scale(rows: RecipeRows) -> float:
    """Log of the factor, common to the dump, between its sums of gradients and what the loss is divided by."""
    if not rows.rows.rollouts:
        return 0.0
    own = relative_scale(rows.recipe.loss, rows.rows["loss_tokens"][:1])
    return -float(denominators(rows).base[0]) - float(np.log(own[0]))


class _Sides:
    """Sums by interval [..., K], taken for settings [S]."""

    def __init__(self, family: TokenFamily, low: Array, high: Array) -> None:
        self._family, self._low, self._high = family, low, high

    def _split(self, table: Array) -> tuple[Array, Array, Array]:
        inner, below, above = np.split(table, (1, 1 + len(self._family.lows)), axis=-1)
        return inner, below, above

    def within(self, table: Array) -> Array:
        """What the bounds keep [..., S]."""
        inner, below, above = self._split(table)
        return np.asarray(inner + outward(below)[..., self._low] + outward(above)[..., self._high])

    def beyond(self, table: Array) -> tuple[Array, Array]:
        """What lies below and above the bounds [..., S]."""
        _, below, above = self._split(table)
        return inward(below)[..., self._low], inward(above)[..., self._high]

    def at_the_bounds(self, counts: Array, quantities: dict[str, Array], within: dict[str, Array]) -> dict[str, Array]:
        """Sums of weights and gradients with what lies beyond a bound put at it."""
        lows = np.array([*self._family.lows, 0.0])[self._low]
        highs = np.array([*self._family.highs, 0.0])[self._high]

        def put(name: str, beyond: Array, power: int = 1) -> Array:
            below, above = self.beyond(beyond)
            return np.asarray(within[name] + below * lows**power + above * highs**power)

        return {
            "weight": put("weight", counts),
            "weight_sq": put("weight_sq", counts, 2),
            "positive": put("positive", quantities["positive_at_1"]),
            "negative": put("negative", quantities["negative_at_1"]),
        }


def _for_all(of_classes: Array, settings: int) -> Array:
    """The same numbers [CLASSES] for all settings [CLASSES, S]."""
    return np.repeat(of_classes[:, None], settings, axis=1)


def _rollouts_touched(sums: FamilySums, untouched: Array, low: Array, high: Array) -> Array:
    """Rollouts but for those of a table by highest levels that the bounds keep whole [CLASSES, S]."""
    kept = untouched.cumsum(1).cumsum(2)
    return np.asarray(sums.highest.sum((1, 2))[:, None] - kept[:, low, high])


def _rollouts_emptied(lowest: Array, low: Array, high: Array) -> Array:
    """Rollouts all of whose tokens are beyond a bound [CLASSES, S]."""
    beyond = lowest[:, ::-1, ::-1].cumsum(1).cumsum(2)[:, ::-1, ::-1]
    return np.asarray(beyond[:, low + 1, high + 1])


def _fired(
    family: TokenFamily, sums: FamilySums, beyond_low: Array, beyond_high: Array, low: Array, high: Array
) -> tuple[Fired, ...]:
    by_low, by_high = sums.highest.sum((0, 2)), sums.highest.sum((0, 1))
    fired = Fired(
        family.tight.filters[0].name,
        beyond_low.sum(0),
        beyond_high.sum(0),
        inward(by_low)[low + 1],
        inward(by_high)[high + 1],
    )
    return (fired,)


def _groups(sums: FamilySums, low: Array, high: Array) -> Array:
    """Groups that keep gradient of both signs [S]."""
    levels = {name: sums.groups[name].to_numpy() for name in sums.groups.columns if name != "group"}
    found = np.zeros(low.size, dtype=np.int64)
    step = max(1, _CELLS // max(1, low.size))
    for start in range(0, sums.groups.height, step):
        part = slice(start, start + step)
        both = np.ones((len(levels["positive_low"][part]), low.size), dtype=bool)
        for sign in ("positive", "negative"):
            both &= (levels[f"{sign}_low"][part, None] <= low) | (levels[f"{sign}_high"][part, None] <= high)
        found += both.sum(0)
    return found
