"""The few tests that findings decide with. Rollouts of one group share a prompt, so groups are what is counted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from iscope.analysis.numbers import Array


@dataclass(frozen=True)
class Estimate:
    """A ratio of sums over clusters, and how sure it is.

    Attributes:
        value: the ratio.
        error: its standard error between clusters.
        clusters: how many there are.
    """

    value: float
    error: float
    clusters: int

    def z(self, expected: float = 0.0) -> float:
        """Standard errors that the value lies above an expected one; 0 where there is no error to measure by."""
        return (self.value - expected) / self.error if self.error > 0 else 0.0

    def chance(self) -> float:
        """One-sided chance of a value so far above 0 if the truth is 0, by Student's t over the clusters."""
        return chance_of_t(self.z(), self.clusters - 1) if self.clusters > 1 and self.error > 0 else 1.0


def ratio(part: Array, whole: Array, clusters: Array) -> Estimate:
    """Sum of parts over sum of wholes, with the linearised standard error of a ratio estimate.

    Args:
        part: [N], of each rollout.
        whole: [N], of each rollout.
        clusters: int64 [N], the cluster of each, from 0.
    """
    sizes = np.bincount(clusters)
    count = int((sizes > 0).sum())
    total = float(whole.sum())
    if count == 0 or total == 0:
        return Estimate(0.0, 0.0, count)
    value = float(part.sum()) / total
    rest = np.bincount(clusters, part - value * whole)
    spread = math.sqrt(float((rest**2).sum()) * count / (count - 1)) if count > 1 else 0.0
    return Estimate(value, spread / total, count)


def chance_of_t(t: float, freedom: int) -> float:
    """Upper tail of Student's t, by integrating its density from 0 (Simpson's rule on the angle atan(t / sqrt(nu)))."""
    angle = np.linspace(0.0, math.atan(abs(t) / math.sqrt(freedom)), 2001)
    values = np.cos(angle) ** (freedom - 1)
    step = float(angle[1] - angle[0])
    inside = step / 3 * float(values[0] + values[-1] + 4 * values[1:-1:2].sum() + 2 * values[2:-1:2].sum())
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    upper = max(0.5 - scale * inside, 0.0)
    return upper if t >= 0 else 1 - upper


def chance_of_at_least(hits: int, trials: int, rate: float) -> float:
    """Upper bound (Chernoff) of the chance of so many hits in so many trials at this rate."""
    if trials == 0 or hits <= trials * rate:
        return 1.0
    if rate <= 0:
        return 0.0
    share = hits / trials
    divergence = share * math.log(share / rate)
    if share < 1:
        divergence += (1 - share) * math.log((1 - share) / (1 - rate))
    return math.exp(-trials * divergence)


@dataclass(frozen=True)
class Trend:
    """A weighted line through clusters.

    Attributes:
        slope: change of y per unit of x.
        z: slope in units of its standard error, which allows for unequal variances.
        rise: slope times the range of x.
    """

    slope: float
    z: float
    rise: float


def trend(x: Array, y: Array, weight: Array, control: Array | None = None) -> Trend:
    """Fit y = a + b x (+ c control) over clusters [C] by weighted least squares; standard error by the sandwich HC1.

    Args:
        x: what moves.
        y: what follows.
        weight: of each cluster.
        control: another explanation, whose share is taken out of x and y first.
    """
    parameters = 2 if control is None else 3
    nothing = Trend(0.0, 0.0, 0.0)
    if x.size <= parameters or weight.sum() <= 0:
        return nothing
    dx, dy = _centred(x, weight), _centred(y, weight)
    if control is not None:
        dc = _centred(control, weight)
        dx, dy = _without(dx, dc, weight), _without(dy, dc, weight)
    squares = float((weight * dx**2).sum())
    if squares <= 1e-12 * float((weight * x**2).sum()):
        return nothing
    slope = float((weight * dx * dy).sum()) / squares
    rest = dy - slope * dx
    error = math.sqrt(float(((weight * dx * rest) ** 2).sum()) * x.size / (x.size - parameters)) / squares
    return Trend(slope, slope / error if error > 0 else 0.0, slope * float(x.max() - x.min()))


def _centred(values: Array, weight: Array) -> Array:
    return np.asarray(values - (weight * values).sum() / weight.sum())


def _without(values: Array, control: Array, weight: Array) -> Array:
    squares = float((weight * control**2).sum())
    return values - control * (float((weight * values * control).sum()) / squares) if squares > 0 else values
