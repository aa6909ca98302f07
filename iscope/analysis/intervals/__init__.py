"""Intervals at 95% by cluster bootstrap, for figures that are functions of a few sums over rollouts.

Rollouts of one group (else each rollout) are resampled together, 1,000 times from a fixed seed. The interval is Efron's
BCa (bias-corrected and accelerated, JASA 82:171, 1987) with its tail probabilities widened from the normal to
Student's t, as Hesterberg does for the percentile interval (The American Statistician 69:371, 2015): plain percentiles
are too short for few groups. ``LISTED`` names the figures that have one. A figure on the list goes without where

- there are fewer than 10 clusters;
- fewer than 2 clusters carry its variance: (sum z^2)^2 / sum z^4 of what each moves it by;
- it is a share of counts at exactly 0 or 1, where resampling sees no variation;
- more than 5% of the replicates are 0 / 0, or it leaves float64.

Quantiles, extremes and k-hat have none: they are no functions of sums. Others that are such functions have none either,
because single rollouts or tokens decide them on real dumps, and their intervals covered too little when
``benchmarks/coverage.py`` measured it (four healthy dumps of 48 and 60 groups, 400 samples each): raw sequence and
geometric ratios (65% to 94%), means over rollouts of their means (68%), mean exp(abs(d)) (86%), k3 of rejected tokens
(88%), changes among rollouts with zero advantage (88%), the effective batch size over the base's (90%), a bucket's
share of k3 (92%), the share of truncated tokens (92%); or too much: the shares of masked and of modified rollouts
(97.3% and 97.1%). Those on the list covered in 93% to 97% of the samples, pooled over dumps and recipes. With 12
groups, of populations of 12, it was 83% (gradient left) to 98%, 93% for the middle one.

What a recipe divides by over a whole batch (the batch's mean weight, tokens that filters take out of the loss) is held
at the dump's value in every replicate.
"""

from __future__ import annotations

from iscope.analysis.intervals.clusters import Clusters
from iscope.analysis.intervals.deferred import Closing, closed, pending
from iscope.analysis.intervals.figures import (
    Weighed,
    fraction,
    fraction_of,
    log_size,
    part_of,
    ratio,
    ratio_of,
    size_of,
    weight_ratio,
)
from iscope.analysis.intervals.listed import LISTED

__all__ = [
    "LISTED",
    "Closing",
    "Clusters",
    "Weighed",
    "closed",
    "fraction",
    "fraction_of",
    "log_size",
    "part_of",
    "pending",
    "ratio",
    "ratio_of",
    "size_of",
    "weight_ratio",
]
