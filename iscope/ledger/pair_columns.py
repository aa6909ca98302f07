"""Columns of a policy pair: what its log-ratios and ratios sum up to over each rollout."""

from __future__ import annotations

import numpy as np
import torch

from iscope.ledger.kernels.outside import COUNTS, EXTREMES, SUMS, count_outside, find_range, sum_outside
from iscope.ledger.split import Columns, Split
from iscope.recipes.model import Pair
from iscope.replay.segments import on_cpu
from iscope.replay.view import EXPONENT_LIMIT, TokenView


def measure_pair(split: Split, pair: Pair) -> Columns:
    """Sums of a pair's log-ratio d and ratio rho over each rollout [N]; float64 in nats, int64 in tokens.

    ``excess`` is rho - 1: moments about 1 keep their digits where ratios are close to it, plain ones elsewhere.
    """
    inside, rest, n = split.bulk.pairs[pair], split.rest, split.bulk.n
    outside = (_sum_outside if on_cpu(n) else _sum_outside_on_device)(rest, pair)
    e_sum, e_sq = inside["excess_sum"], inside["excess_sq"]
    return {
        "log_ratio_sum": rest.rollouts.log_ratio_sum(pair),
        "log_ratio_sq": inside["log_ratio_sq"] + outside["log_ratio_sq"],
        "log_ratio_min": torch.minimum(inside["log_ratio_min"], outside["log_ratio_min"]),
        "log_ratio_max": torch.maximum(inside["log_ratio_max"], outside["log_ratio_max"]),
        "abs_sum": inside["abs_sum"] + outside["abs_sum"],
        "exp_abs_sum": inside["exp_abs_sum"] + outside["exp_abs_sum"],
        "weight_sum": n + e_sum + outside["weight_sum"],
        "weight_sq": n + 2 * e_sum + e_sq + outside["weight_sq"],
        "excess_sum": e_sum + outside["excess_sum"],
        "excess_sq": e_sq + outside["excess_sq"],
        "k3_sum": inside["k3_sum"] + outside["k3_sum"],
        "below_half": outside["below_half"],
        "above_two": outside["above_two"],
        "at_limit": outside["at_limit"],
    }


def _sum_outside(rest: TokenView, pair: Pair) -> Columns:
    """The same of the tokens outside the screen, except S; a ratio of 1/2 and less or of 2 and more is outside."""
    segments, exact, d = rest.segments, rest.exact(pair).numpy(), rest.log_ratio(pair).numpy()
    offsets, rows = segments.offsets.numpy(), segments.rows
    sums, extremes = np.empty((len(SUMS), rows)), np.empty((len(EXTREMES), rows))
    counts = np.empty((len(COUNTS), rows), dtype=np.int64)
    ratios = (rest.excess(pair), rest.weight(pair), rest.k3(pair))
    sum_outside(sums, offsets, exact, *(values.numpy() for values in ratios))
    find_range(extremes, offsets, d)
    count_outside(counts, offsets, rest.ratio(pair).numpy(), exact, EXPONENT_LIMIT)
    found: Columns = {}
    for names, table in ((SUMS, sums), (EXTREMES, extremes), (COUNTS, counts)):
        found |= dict(zip(names, torch.from_numpy(table), strict=True))
    return found


def _sum_outside_on_device(rest: TokenView, pair: Pair) -> Columns:
    """The same on any device."""
    segments, exact, excess, weight = rest.segments, rest.exact(pair), rest.excess(pair), rest.weight(pair)
    magnitude, ratio, d = exact.abs(), rest.ratio(pair), rest.log_ratio(pair)
    return {
        "log_ratio_sq": segments.sum(exact * exact),
        "log_ratio_min": segments.min(d).double(),
        "log_ratio_max": segments.max(d).double(),
        "abs_sum": segments.sum(magnitude),
        "exp_abs_sum": segments.sum(magnitude.exp()),
        "weight_sum": segments.sum(weight),
        "weight_sq": segments.sum(weight * weight),
        "excess_sum": segments.sum(excess),
        "excess_sq": segments.sum(excess * excess),
        "k3_sum": segments.sum(rest.k3(pair)),
        "below_half": segments.count(ratio < 0.5),
        "above_two": segments.count(ratio > 2.0),
        "at_limit": segments.count(magnitude >= EXPONENT_LIMIT),
    }
