"""Pareto k-hat: the shape of a generalised Pareto distribution fitted to the largest of some weights."""

from __future__ import annotations

import math

import numpy as np

from iscope.analysis.numbers import Array

# Fewest draws in a tail: k-hat's prior weighs as much as 10 of them, so that fewer would mostly give back the prior.
SMALLEST_TAIL = 10
_PRIOR_DRAWS, _PRIOR_SHAPE = 10, 0.5
# Beyond this a ratio of draws leaves float64; k-hat is then far above every threshold, whatever the exact number.
_LARGEST_EXPONENT = 600.0
_EQUAL = 1e-30  # relative difference of weights below which they are the same: products with it stay in float64
_BLOCK = 2**15  # numbers held at once
_FACTORS, _LARGEST_LOG = 16, 600.0  # of a product that stays in float64


def tail_length(draws: int) -> int:
    """How many of the largest draws are the tail: a fifth of them, 3 sqrt(draws) from 226 draws on."""
    return math.floor(3 * math.sqrt(draws)) if draws > 225 else draws // 5


def threshold(draws: int) -> float:
    """Largest k-hat at which a mean over so many draws can be relied on: 1 - 1 / log10(draws), 0.7 at most."""
    return min(1 - 1 / math.log10(draws), 0.7) if draws > 1 else -math.inf


def pareto_khat(largest: Array) -> float | None:
    """Shape k-hat of the tail of some positive weights.

    The fit of Zhang and Stephens (2009) with a weakly informative prior of 10 draws at 0.5, as in Pareto smoothed
    importance sampling: Vehtari, Simpson, Gelman, Yao and Gabry, arXiv 1507.02646.

    Args:
        largest: logs of the tail's weights and of the next one below it, the cutoff, in rising order; finite.

    Returns:
        k-hat: moments of the weights above 1 / k-hat do not exist. None where a quarter of the tail equals the cutoff,
        as where all weights are equal.
    """
    draws = np.expm1(np.minimum(largest[1:] - largest[0], _LARGEST_EXPONENT))
    n = draws.size
    quartile = float(draws[int(n / 4 + 0.5) - 1])
    if quartile < _EQUAL:
        return None
    points = 30 + int(math.sqrt(n))
    grid = (1 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))) / (3 * quartile) + 1 / draws[-1]
    shapes = _shapes(grid, draws)
    likelihood = n * (np.log(-grid / shapes) - shapes - 1)
    weights = np.exp(likelihood - likelihood.max())
    weights /= weights.sum()
    counted = weights >= 10 * np.finfo(np.float64).eps
    place = float((grid[counted] * weights[counted]).sum() / weights[counted].sum())
    shape = float(_shapes(np.array([place]), draws)[0])
    return float((n * shape + _PRIOR_DRAWS * _PRIOR_SHAPE) / (n + _PRIOR_DRAWS))


def _shapes(grid: Array, draws: Array) -> Array:
    """Mean of log(1 - b x) over the draws x, for each b of the grid: logs of products of a few of them."""
    largest = max(1.0, float(np.abs(np.log1p(grid * -draws[-1])).max()))
    factors = max(1, min(_FACTORS, int(_LARGEST_LOG / largest)))
    padded: Array = np.zeros(-(-draws.size // factors) * factors)
    padded[: draws.size] = draws
    padded = np.ascontiguousarray(padded.reshape(-1, factors).T)
    rows = max(1, _BLOCK // padded.shape[1])
    parts = (grid[first : first + rows, None] for first in range(0, grid.size, rows))
    return np.concatenate([np.log(_product(part, padded)).sum(axis=1) / draws.size for part in parts])


def _product(grid: Array, draws: Array) -> Array:
    """Product over k of 1 - b x_k [B, P], of grid [B, 1] and draws [k, P]."""
    found, factor = np.ones((len(grid), draws.shape[1])), np.empty((len(grid), draws.shape[1]))
    for some in draws:
        np.multiply(grid, some, out=factor)
        np.subtract(1.0, factor, out=factor)
        found *= factor
    return found
