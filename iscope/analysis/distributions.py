"""How the log-ratios are spread at each level, where recipes' bounds lie on them, and how they run along a rollout."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from iscope.analysis.numbers import Array
from iscope.analysis.rows import Rows
from iscope.ledger import histogram
from iscope.ledger.histogram import Counts
from iscope.model import Figures, Node
from iscope.recipes.bounds import bands
from iscope.recipes.model import BoundRecipe, Level, Pair

_BINS = 160
_TAIL = {Level.TOKEN: 0.001, Level.SEQUENCE: 0.01, Level.GEOMETRIC: 0.01}  # left out at either end, but counted
_NICE = (1, 2, 5)
_PAIRS = (Pair.TRAINER_INFERENCE, Pair.CURRENT_INFERENCE)
_LEVELS = (Level.TOKEN, Level.SEQUENCE, Level.GEOMETRIC)


def distributions(rows: Rows, position: list[Node], recipes: Sequence[BoundRecipe]) -> Figures | None:
    """Return what a picture of the log-ratios needs; None without a scored token.

    ``ratio`` holds by policy pair and level the histogram of d of each token, of S and of G of each rollout, in nats:
    equal bins from ``start`` on, each ``width`` wide, ``counts``, and how many lie ``below`` and ``above`` them. Tokens
    are counted from the ledger's fixed bins, each put where its middle lies. ``bounds`` are those of the recipes on a
    log-ratio, nats, null for an open end. ``position`` holds k3 and mean abs(d), nats per token, by the place of a
    token from the first loss token on, over the tokens of the ledger's sample.

    Args:
        rows: the rollouts.
        position: how the mismatch of the sample runs along a rollout.
        recipes: whose bounds to list.
    """
    if not rows.tokens:
        return None
    pairs = [pair for pair in _PAIRS if rows.resolve(pair) is pair]
    by_pair: Figures = {str(pair): {str(level): _spread(rows, pair, level) for level in _LEVELS} for pair in pairs}
    return {"ratio": by_pair, "bounds": _bounds(rows, recipes), "position": position}


def _spread(rows: Rows, pair: Pair, level: Level) -> Figures:
    if level is Level.TOKEN:
        values, counts = _middles(rows.histograms[str(pair)])
        unit = "tokens"
    else:
        values = np.sort(rows.log_ratio(level, pair))
        counts, unit = np.ones(values.size, dtype=np.int64), "rollouts"
    low, high = _ends(values, counts, _TAIL[level])
    width = _width(high - low)
    start = math.floor(low / width) * width
    bins = max(1, math.ceil((high - start) / width + 1e-9))
    place = np.floor((values - start) / width).astype(np.int64)
    inside = (place >= 0) & (place < bins)
    listed: list[Node] = [*np.bincount(place[inside], counts[inside], bins).astype(np.int64).tolist()]
    return {
        "unit": unit,
        "start": round(start, 12),
        "width": width,
        "counts": listed,
        "below": int(counts[place < 0].sum()),
        "above": int(counts[place >= bins].sum()),
    }


def _middles(counts: Counts) -> tuple[Array, Array]:
    """The middle of each bin of the ledger that holds a token, nats, in rising order, and the tokens in it."""
    filled = np.flatnonzero(counts[: histogram.BINS])
    return histogram.middles(filled), counts[filled]


def _ends(values: Array, counts: Array, tail: float) -> tuple[float, float]:
    """The quantiles between which the picture is drawn."""
    rank = np.cumsum(counts)
    places = np.searchsorted(rank, [tail * rank[-1], (1 - tail) * rank[-1]])
    low, high = values[np.minimum(places, values.size - 1)].tolist()
    return low, high


def _width(span: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten nats that cuts a span into few enough bins."""
    if span <= 0:
        return 1e-6
    power = 10.0 ** math.floor(math.log10(span / _BINS))
    return next((factor * power for factor in _NICE if span / (factor * power) <= _BINS), 10 * power)


def _bounds(rows: Rows, recipes: Sequence[BoundRecipe]) -> list[Node]:
    found: list[Node] = []
    for recipe in recipes:
        for band in bands(recipe):
            ends = {name: end if math.isfinite(end) else None for name, end in (("low", band.low), ("high", band.high))}
            place: Figures = {"rule": band.rule, "level": str(band.level), "pair": str(rows.resolve(band.pair))}
            found.append({"spec": recipe.spec, **place, **ends, "signs": str(band.signs)})
    return found
