"""The BCa interval of a function of cluster sums, written out replicate by replicate.

Efron, "Better bootstrap confidence intervals", JASA 82:171 (1987), with tail probabilities widened from the normal to
Student's t (Hesterberg, The American Statistician 69:371, 2015).
"""

from __future__ import annotations

import math
from statistics import NormalDist

from scipy import stats


def interval(clusters, statistic, draws):
    """Interval of statistic(sums) over clusters, each a tuple of sums; a draw says how often each cluster is taken."""
    normal, count = NormalDist(), len(clusters)
    value = statistic(*sums(clusters, [1] * count))
    replicates = sorted(statistic(*sums(clusters, draw)) for draw in draws)
    below = (sum(x < value for x in replicates) + sum(x <= value for x in replicates)) / 2
    bias = normal.inv_cdf(below / len(replicates))
    without = [statistic(*sums(clusters, [int(j != i) for j in range(count)])) for i in range(count)]
    mean = math.fsum(without) / count
    cubes = math.fsum((mean - x) ** 3 for x in without)
    squares = math.fsum((mean - x) ** 2 for x in without)
    acceleration = cubes / (6 * squares**1.5)
    wide = stats.t.ppf(0.975, count - 1) * math.sqrt(count / (count - 1))
    ends = []
    for at in (-wide, wide):
        share = normal.cdf(bias + (bias + at) / (1 - acceleration * (bias + at)))
        place = share * (len(replicates) - 1)
        left = math.floor(place)
        ends.append(replicates[left] + (place - left) * (replicates[left + 1] - replicates[left]))
    return ends


def sums(clusters, draw):
    columns = zip(*clusters, strict=True)
    return [math.fsum(times * x for times, x in zip(draw, column, strict=True)) for column in columns]


def variance_ratio(rollouts):
    """Of rollouts given by the log-ratios of their tokens."""
    above = below = 0.0
    for tokens in rollouts:
        excess = [math.expm1(d) for d in tokens]
        above += math.fsum(excess) ** 2
        below += math.fsum(e * e for e in excess)
    return above / below
