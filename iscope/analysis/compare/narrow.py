"""Which bounds of a setting on whole rollouts are narrower than the dump's own noise."""

from __future__ import annotations

import math

import numpy as np

from iscope.analysis.figures.keep import WANTED
from iscope.analysis.growth import Growth
from iscope.analysis.lengths import Lengths
from iscope.analysis.rows import Rows
from iscope.recipes.bounds import Band, bands
from iscope.recipes.model import BoundRecipe, Level


def narrow_bounds(rows: Rows, recipe: BoundRecipe) -> list[str]:
    """Return a sentence for each bound on S or G that noise alone breaks in more than one rollout of ten.

    By the drift and the noise of the dump's log-ratios (``iscope.analysis.growth``), over its own lengths.
    """
    if not rows.rollouts:
        return []
    found = [band for band in bands(recipe) if band.level in (Level.SEQUENCE, Level.GEOMETRIC)]
    return [said for band in found if (said := _sentence(rows, recipe, band))]


def _sentence(rows: Rows, recipe: BoundRecipe, band: Band) -> str:
    buckets = rows.once("lengths", lambda: Lengths.among(rows.n))
    growth = rows.once(("growth", rows.resolve(band.pair)), lambda: Growth.of(rows, band.pair, buckets))
    counts = np.bincount(buckets.of, minlength=buckets.buckets)
    chances = [float(growth.chance(buckets.some[index], band).mean()) for index in range(buckets.buckets)]
    keep = float(np.average(chances, weights=counts))
    if keep >= WANTED:
        return ""
    typical = int(np.median(rows.n))
    spread = growth.noise * (math.sqrt(typical) if band.level is Level.SEQUENCE else 1 / math.sqrt(typical))
    of = "exp(S)" if band.level is Level.SEQUENCE else "exp(G)"
    return (
        f"{recipe.spec}: the {band.rule} bounds on {of} ({_ends(band)}) are narrower than the noise: at {typical:,} "
        f"tokens, the median length, log {of} scatters by {spread:.2g}, and noise and drift alone keep {keep:.0%} of "
        "the rollouts."
    )


def _ends(band: Band) -> str:
    low, high = ("" if math.isinf(end) else f"{math.exp(min(end, 700.0)):.4g}" for end in (band.low, band.high))
    return f"{low}..{high}"
