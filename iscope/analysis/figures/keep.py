"""keep(T): the chance that bounds on a rollout's log-ratio hold at length T, beside the share that they kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from iscope.analysis.figures.variance_ratio import ROUNDING_K3, variance_columns
from iscope.analysis.growth import Growth
from iscope.analysis.intervals.clusters import block_sums
from iscope.analysis.lengths import Lengths
from iscope.analysis.numbers import NO_TOKENS, Array, share
from iscope.analysis.recipe_rows import RecipeRows
from iscope.analysis.rows import Rows
from iscope.model import Figure, Figures, Node
from iscope.recipes.bounds import Band, bands
from iscope.recipes.model import Level, Pair

# The share of rollouts that a length should keep.
WANTED = 0.9
# The longest length that is looked at.
_LONGEST = 2**17
# Sums grow like noise below this variance ratio; where they do not, nothing is said of lengths that were not observed.
_LIKE_NOISE = 2.0
_LARGEST_EXPONENT = 700.0
_BETWEEN = 62  # lengths that are looked at together: one after the other takes longer


def figures(rows: RecipeRows) -> Figures:
    """``keep_at_length``: one entry per rule with bounds on S or G, in ratios exp(S) (sequence) or exp(G) (geometric).

    ``lengths``: per bucket of scored tokens the share of rollouts within the bounds (``observed``) and the chance of
    it by the drift and the noise of this dump (``predicted``, see ``iscope.analysis.growth``). ``keep_90``: the
    shortest and longest length of which the bounds keep 90%. By the chance, at lengths that the dump does not have
    too, where its variance ratio is known and below 2 (``basis`` is ``chance``); else by the buckets (``observed``).
    ``drift`` and ``noise`` are mean and standard deviation of d, nats per token.
    """
    found = [band for band in bands(rows.recipe) if band.level in (Level.SEQUENCE, Level.GEOMETRIC)]
    entries: list[Node] = [_entry(rows, band) for band in found if rows.rows.with_sign(band.signs) is not None]
    return {"keep_at_length": entries}


def _entry(rows: RecipeRows, band: Band) -> Figures:
    head: Figures = {
        "filter": band.rule,
        "level": str(band.level),
        "pair": str(rows.rows.resolve(band.pair)),
        "signs": str(band.signs),
        "bound": {"low": _ratio(band.low), "high": _ratio(band.high)},
    }
    if not rows.rows.rollouts:
        nothing = Figure.absent(NO_TOKENS)
        ends: Figures = {"low": nothing, "high": nothing, "basis": "observed"}
        return head | {"drift": nothing, "noise": nothing, "lengths": [], "keep_90": ends}
    buckets = rows.rows.once("lengths", lambda: Lengths.among(rows.rows.n))
    name = (rows.rows.resolve(band.pair),)
    growth = rows.rows.once(("growth", *name), lambda: Growth.of(rows.rows, band.pair, buckets))
    grid = _grid()
    chances = growth.chance(np.concatenate([grid, *buckets.some]), band)
    of_grid, of_some = chances[: grid.size], chances[grid.size :]
    lengths = _lengths(rows, band, of_some, buckets)
    like_noise = rows.rows.once(("like noise", *name), lambda: _like_noise(rows.rows, band.pair))
    return head | {
        "drift": Figure(growth.drift),
        "noise": Figure(growth.noise),
        "lengths": [*lengths],
        "keep_90": _by_chance(growth, band, grid, of_grid) if like_noise else _by_observation(lengths),
    }


def _like_noise(rows: Rows, pair: Pair) -> bool:
    """Whether sums of log-ratios are known to grow like noise."""
    of_sums, of_tokens = variance_columns(rows, pair)
    rounding = rows.pair_total("k3_sum", pair) < ROUNDING_K3 * rows.tokens
    return not rounding and float(of_sums.sum()) < _LIKE_NOISE * float(of_tokens.sum())


def _ratio(log: float) -> float | None:
    """The ratio of a bound, as its option gives it but for rounding; None where there is none that float64 can hold."""
    return None if math.isinf(log) or log > _LARGEST_EXPONENT else float(f"{math.exp(log):.12g}")


def _lengths(rows: RecipeRows, band: Band, chance: Array, buckets: Lengths) -> list[Figures]:
    """One row per bucket; ``chance`` is that of the lengths that stand for them."""
    force = rows.rows.with_sign(band.signs)
    assert force is not None
    count = rows.rows.once(("rollouts by length", band.signs), lambda: _by_length(buckets, force))
    held = _by_length(buckets, force & rows.passed(band.index))
    sizes = np.array([*map(len, buckets.some)])
    chances = (np.add.reduceat(chance, np.cumsum(sizes) - sizes) / sizes).tolist()
    return [
        {
            "low": low,
            "high": high,
            "rollouts": count[index],
            "observed": share(held[index], count[index], f"no rollout with {band.signs}"),
            "predicted": Figure(chances[index]),
        }
        for index, (low, high) in enumerate(buckets.ends)
    ]


def _by_length(buckets: Lengths, flags: Array) -> list[int]:
    """How many rollouts of each bucket are flagged [N]."""
    found: list[int] = block_sums(buckets.of, buckets.buckets, [flags])[0].astype(np.int64).tolist()
    return found


def _by_chance(growth: Growth, band: Band, grid: Array, chance: Array) -> Figures:
    if chance.max() < WANTED:
        why = Figure.absent(f"no length up to {_LONGEST:,} tokens keeps {WANTED:.0%} of the rollouts")
        return {"low": why, "high": why, "basis": "chance"}
    first, last = _run(chance >= WANTED, int(chance.argmax()))
    low = grid[0] if first == 0 else _edge(growth, band, int(grid[first - 1]), int(grid[first]))
    if last == grid.size - 1:
        high = Figure.absent(f"{WANTED:.0%} are still kept at {_LONGEST:,} tokens")
    else:
        high = Figure(_edge(growth, band, int(grid[last + 1]), int(grid[last])))
    return {"low": Figure(int(low)), "high": high, "basis": "chance"}


@cache
def _grid() -> Array:
    """Lengths that are looked at, int64 [L]."""
    grid: Array = np.unique(np.geomspace(1, _LONGEST, 128).round().astype(np.int64))
    return grid


def _edge(growth: Growth, band: Band, outside: int, inside: int) -> int:
    """The last length, from one that keeps enough towards one that does not, that still keeps enough."""
    while abs(inside - outside) > 1:
        between = np.unique(np.linspace(inside, outside, _BETWEEN + 2).astype(np.int64))
        between = between if inside < outside else between[::-1]
        enough = np.append(growth.chance(between[1:-1], band) >= WANTED, False)
        first = int(enough.argmin())
        inside, outside = int(between[first]), int(between[first + 1])
    return inside


def _by_observation(lengths: Sequence[Figures]) -> Figures:
    shares = np.array([_value(row["observed"]) for row in lengths])
    if shares.max() < WANTED:
        why = Figure.absent(f"no bucket of lengths kept {WANTED:.0%} of its rollouts")
        return {"low": why, "high": why, "basis": "observed"}
    first, last = _run(shares >= WANTED, int(shares.argmax()))
    low, high = _count(lengths[first]["low"]), _count(lengths[last]["high"])
    return {"low": low, "high": high, "basis": "observed"}


def _value(node: Node) -> float:
    return float(node.value) if isinstance(node, Figure) and node.value is not None else -1.0


def _count(node: Node) -> Figure:
    assert isinstance(node, int)
    return Figure(node)


def _run(flags: Array, at: int) -> tuple[int, int]:
    """First and last place of the unbroken run of set flags around a place."""
    below, above = np.flatnonzero(~flags[:at]), np.flatnonzero(~flags[at:])
    return (int(below[-1]) + 1 if below.size else 0), (at + int(above[0]) - 1 if above.size else flags.size - 1)
