"""Bounds from the quantiles of a dump: what a share of its rollouts, or of its tokens, lies within."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from iscope.analysis.numbers import Array
from iscope.analysis.rows import Rows, scored_rows
from iscope.errors import DataError, UsageError
from iscope.ledger import histogram
from iscope.ledger.histogram import Counts
from iscope.ledger.ledger import Ledger
from iscope.ledger.plan import Plan
from iscope.recipes.bounds import Band, bands
from iscope.recipes.fit import fitted
from iscope.recipes.model import BoundRecipe, Level

# Beyond it exp(S) leaves float32, in which trainers compare it with its bounds.
_LARGEST_EXPONENT = 80.0
_NOTHING = (
    "there is no bound to fit: name a recipe with bounds on ratios and leave them out, as in "
    "--recipe prime-rl/mis_po --fit keep=.95."
)


def check_fit(plan: Plan, keep: float) -> None:
    """Refuse a share that is none, and a plan without a bound to fit, before the dump is read.

    Raises:
        UsageError: the share is not between 0 and 1, or no recipe that the user named has bounds on ratios.
    """
    if not 0 < keep < 1:
        raise UsageError(f"the share to keep must lie between 0 and 1, as 0.95 does; {keep!r} does not.")
    if not any(bands(recipe) for recipe in plan.recipes if recipe.named):
        raise UsageError(_NOTHING)


def fit_plan(plan: Plan, ledger: Ledger, keep: float) -> Plan:
    """Return a plan whose recipes have their bounds at quantiles of a dump.

    Only recipes that the user named, and only bounds on ratios of tokens or rollouts whose options were left at their
    default. Each rule alone keeps at least the share: of tokens (read from the histogram) or of rollouts. With two
    bounds as many may lie below as above.

    Args:
        plan: the plan.
        ledger: the same dump, measured.
        keep: the share, between 0 and 1.

    Raises:
        UsageError: when no recipe has such a bound.
        DataError: when the dump has no scored token, or ratios that no bound can hold.
    """
    rows = scored_rows(ledger)
    if not rows.rollouts:
        raise DataError("no bound can be fitted: the dump has no scored token.")
    recipes = tuple(_fit(recipe, rows, keep) if recipe.named else recipe for recipe in plan.recipes)
    if not any(recipe.fitted for recipe in recipes):
        raise UsageError(_NOTHING)
    return replace(plan, recipes=recipes, fit=keep)


def _fit(recipe: BoundRecipe, rows: Rows, keep: float) -> BoundRecipe:
    wanted = []
    for band in bands(recipe):
        force = rows.with_sign(band.signs)
        if force is None or not force.any():
            continue
        low, high = _quantiles(rows, band, force, keep)
        if low < -_LARGEST_EXPONENT or high > _LARGEST_EXPONENT:
            raise DataError(
                f"{recipe.name}: no bound can be fitted to keep {keep:g} of the {band.level} ratios, which reach from "
                f"e^{low:.0f} to e^{high:.0f}."
            )
        wanted.append((band, low, high))
    return fitted(recipe, wanted)


def _quantiles(rows: Rows, band: Band, force: Array, keep: float) -> tuple[float, float]:
    """Where the ends of a band must be, nats; an end that it has not is at the extreme."""
    sides = (band.low > -math.inf) + (band.high < math.inf)
    beyond = (1 - keep) / sides
    if band.level is Level.TOKEN:
        return _of_tokens(rows.histograms[str(rows.resolve(band.pair))], beyond)
    values = np.sort(rows.log_ratio(band.level, band.pair)[force])
    out = math.floor(beyond * values.size)
    return float(values[out]), float(values[values.size - 1 - out])


def _of_tokens(counts: Counts, beyond: float) -> tuple[float, float]:
    """Edges of bins with at most this share of the tokens below the lower one, and above the upper one."""
    bins = counts[: histogram.BINS]
    out = beyond * bins.sum()
    lowest = int(np.argmax(np.cumsum(bins) > out))
    highest = histogram.BINS - 1 - int(np.argmax(np.cumsum(bins[::-1]) > out))
    return histogram.edges(lowest)[0], histogram.edges(highest)[1]
