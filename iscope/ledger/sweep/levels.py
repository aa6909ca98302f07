"""The tokens of a batch by rollout and by how many bounds of a family reject them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from iscope.ledger.split import Split
from iscope.ledger.sweep.families import TokenFamily
from iscope.recipes.model import BoundRecipe, Signs, WeightRule
from iscope.replay.correction import correct
from iscope.replay.filters import statistic, with_sign
from iscope.replay.losses import loss_terms, signal_of
from iscope.replay.segments import Array
from iscope.replay.view import TokenView
from iscope.replay.weights import tested_token_ratio

# What is summed of each token: its weight as if there were no bounds, k3 of the recipe's pair, and the gradient by
# sign, at that weight and at weight 1.
QUANTITIES = ("weight", "weight_sq", "k3", "positive", "negative", "positive_at_1", "negative_at_1")


@dataclass(frozen=True)
class Tables:
    """Sums over the tokens of N rollouts by K = 1 + L + H intervals.

    Attributes:
        lows: L, bounds below.
        highs: H, bounds above.
        n: int64 [N], scored tokens.
        log_ratio_sum: float64 [N], S of the recipe's pair, nats.
        counts: int64 [N, K], tokens.
        cut: int64 [2, N, K], tokens whose weight a bound of its own raises, and cuts; none where the bounds are those
            of the family.
        sums: float64 [N, K] of each quantity.
    """

    lows: int
    highs: int
    n: Array
    log_ratio_sum: Array
    counts: Array
    cut: Array
    sums: dict[str, Array]

    def of_rows(self, rows: Array) -> Tables:
        """Return the tables of some rollouts."""
        if rows.size == self.n.size:
            return self
        sums = {name: table[rows] for name, table in self.sums.items()}
        return replace(
            self,
            n=self.n[rows],
            log_ratio_sum=self.log_ratio_sum[rows],
            counts=self.counts[rows],
            cut=self.cut[:, rows],
            sums=sums,
        )

    def sides(self, name: str, family: TokenFamily) -> tuple[Array, Array]:
        """A quantity of what settings keep, so that the sum of one entry of either is that of a setting.

        Returns:
            float64 [N, L + 1]: the tokens within all bounds and those below that the bound of this number keeps, at the
            bound where it truncates; [N, H + 1]: those above.
        """
        inner, below, above = np.split(self.sums[name], (1, 1 + self.lows), axis=1)
        found = [outward(below), outward(above)]
        if family.kind == "truncate":
            beyond = self.counts if name == "weight" else self.sums[f"{name}_at_1"]
            _, far_below, far_above = np.split(beyond, (1, 1 + self.lows), axis=1)
            found[0] += inward(far_below) * np.array([*family.lows, 0.0])
            found[1] += inward(far_above) * np.array([*family.highs, 0.0])
        return inner + found[0], found[1]


def outward(table: Array) -> Array:
    """Sums [..., 0], [..., 0 + 1], ... of the levels from the inside, nothing first."""
    found = np.zeros((*table.shape[:-1], table.shape[-1] + 1), dtype=table.dtype)
    np.cumsum(table, axis=-1, out=found[..., 1:])
    return found


def inward(table: Array) -> Array:
    """Sums of the levels from each one outward, nothing last."""
    return outward(table[..., ::-1])[..., ::-1]


def tables_of(split: Split, family: TokenFamily, base: int) -> Tables:
    """Sum up a batch by rollout and interval; arguments as of ``measure_family``."""
    rest, recipe = split.rest, family.tight
    lows, highs = len(family.lows), len(family.highs)
    intervals = 1 + lows + highs
    lengths = rest.segments.lengths.cpu().numpy()
    key = np.repeat(np.arange(0, lengths.size * intervals, intervals), lengths) + _column(rest, family)
    shape = lengths.size, intervals

    def table(values: Array | None = None) -> Array:
        # Without a token bincount counts even where it is to sum.
        found = np.bincount(key, values, minlength=shape[0] * shape[1]).reshape(shape)
        return found if values is None else found.astype(np.float64, copy=False)

    counts = table()
    sums = {name: table(values) for name, values in _token_quantities(rest, family).items()}
    inside = _inside(split, recipe, base)
    counts[:, 0] += split.bulk.n.cpu().numpy()
    for name, values in inside.items():
        sums[name][:, 0] += values
    total = rest.rollouts.log_ratio_sum(recipe.weight.pair).cpu().numpy()
    cut = np.stack([table(flags).astype(np.int64) for flags in _cut(rest, recipe)])
    return Tables(lows, highs, counts.sum(1), total, counts, cut, sums)


def _column(rest: TokenView, family: TokenFamily) -> Array:
    """The interval of each token: 0, then the levels below, then those above."""
    recipe = family.tight
    if family.kind == "mask":
        rule = recipe.filters[0]
        value, closed = statistic(rest, rule).cpu().numpy(), rule.closed
        signs = (rule.low_signs, rule.high_signs)
    else:
        value, closed, signs = tested_token_ratio(rest, recipe.weight).cpu().numpy(), True, (Signs.ANY, Signs.ANY)
    # As torch compares with a number: in the precision of the values.
    lows, highs = (np.array(bounds, dtype=value.dtype) for bounds in (family.lows[::-1], family.highs))
    below = lows.size - np.searchsorted(lows, value, side="right" if closed else "left")
    above = np.searchsorted(highs, value, side="left" if closed else "right")
    known = ~np.isnan(value)
    for levels, sign in ((below, signs[0]), (above, signs[1])):
        levels *= known if sign is Signs.ANY else known & with_sign(rest, sign, per_token=True).cpu().numpy()
    return np.asarray(np.where(above > 0, above + lows.size, below))


def _open(recipe: BoundRecipe) -> BoundRecipe:
    """The recipe without the bounds of its family."""
    if recipe.filters:
        return replace(recipe, filters=())
    return replace(recipe, weight=replace(recipe.weight, low=None, high=None))


def _cut(rest: TokenView, recipe: BoundRecipe) -> tuple[Array, Array]:
    """Whether a bound of the weight's own raises, or cuts, each token [P]."""
    weight = correct(rest, _open(recipe)).weight
    if not weight.per_token:
        nothing = np.zeros(rest.segments.tokens)
        return nothing, nothing
    return weight.low.cpu().numpy().astype(np.float64), weight.high.cpu().numpy().astype(np.float64)


def _token_quantities(rest: TokenView, family: TokenFamily) -> dict[str, Array]:
    """What is summed of each token [P] outside the screen."""
    recipe = _open(family.tight)
    correction = correct(rest, recipe)
    log = correction.weight.log if correction.weight.per_token else rest.segments.expand(correction.weight.log)
    weight = log.exp()
    found = {"weight": weight, "weight_sq": weight * weight, "k3": rest.k3(recipe.weight.pair)}
    found |= _gradients(rest, recipe, "")
    found |= _gradients(rest, replace(recipe, weight=WeightRule()), "_at_1") if family.kind == "truncate" else {}
    empty = torch.zeros_like(weight)
    return {name: found.get(name, empty).cpu().numpy() for name in QUANTITIES}


def _gradients(rest: TokenView, recipe: BoundRecipe, suffix: str) -> dict[str, torch.Tensor]:
    if recipe.loss.signal == "advantage" and rest.advantage is None:
        return {}
    size = loss_terms(rest, recipe, correct(rest, recipe)).coefficient.abs() * rest.uncertainty
    signal = signal_of(rest, recipe.loss)
    return {
        f"positive{suffix}": size.masked_fill(signal <= 0, 0.0),
        f"negative{suffix}": size.masked_fill(signal >= 0, 0.0),
    }


def _inside(split: Split, recipe: BoundRecipe, base: int) -> dict[str, Array]:
    """The same summed over the tokens inside the screen of each rollout."""
    rule, pair = recipe.weight, split.rest.resolve(recipe.weight.pair)
    sums, n = split.bulk.pairs[pair], split.bulk.n.double()
    weighs = rule.level == "token" and rule.applied
    found = {"k3": sums["k3_sum"], "weight": n, "weight_sq": n}
    if weighs:
        found["weight"] = n + sums["excess_sum"]
        found["weight_sq"] = n + 2 * sums["excess_sum"] + sums["excess_sq"]
    gradient = split.bulk.gradients.get((base, pair if weighs else None), {})
    found |= {name.removeprefix("gradient_"): values for name, values in gradient.items()}
    return {name: values.cpu().numpy() for name, values in found.items()}
