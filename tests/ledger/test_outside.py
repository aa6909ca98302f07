"""Compiled sums over the tokens outside the screen against plain ones, token by token."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from iscope.ledger.histogram import BINS, ZERO_WEIGHT, bin_of
from iscope.ledger.kernels.applied import Kept, Totals, Weights, add_applied, move_applied
from iscope.ledger.kernels.outside import (
    COUNTS,
    SUMS,
    count_outside,
    find_range,
    sum_outside,
    sum_outside_by_bucket,
)
from iscope.ledger.kernels.tokens import EDGES

LIMIT = 3.0
CASES = given(lengths=st.lists(st.integers(0, 30), min_size=1, max_size=8), seed=st.integers(0, 10**6))
FILTERED = given(
    lengths=st.lists(st.integers(0, 30), min_size=1, max_size=8),
    seed=st.integers(0, 10**6),
    by_token=st.booleans(),
    by_rollout=st.booleans(),
    sign=st.sampled_from([1.0, -1.0]),
)


def offsets_of(lengths: list[int]) -> np.ndarray:
    return np.cumsum([0, *lengths])


def log_ratios(size: int, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(0, 2, size).astype(np.float32)


def weights_of(size: int, rng: np.random.Generator, sign: float) -> Weights:
    """Weights some of which are cut to a bound or zeroed."""
    log = rng.normal(0, 2, size)
    low, high = log < -1.5, log > 2
    log[low], log[high] = -math.inf, 2.0
    return Weights(log, np.exp(log), sign, sign * np.exp(log) - 1, low, high)


def kept_of(rows: int, size: int, rng: np.random.Generator, *, by_token: bool, by_rollout: bool) -> Kept:
    none = np.empty(0, dtype=bool)
    return Kept(rng.random(size) < 0.7 if by_token else none, rng.random(rows) < 0.7 if by_rollout else none)


def keeps(kept: Kept, row: int, token: int) -> bool:
    stays = not len(kept.rollouts) or bool(kept.rollouts[row])
    return stays and (not len(kept.tokens) or bool(kept.tokens[token]))


def assert_sum(found: float, start: float, terms: list[float]) -> None:
    assert abs(found - math.fsum([start, *terms])) <= 1e-13 * math.fsum([abs(start), *map(abs, terms)])


@FILTERED
def test_applied_weights_are_added_to_what_is_inside(
    lengths: list[int], seed: int, by_token: bool, by_rollout: bool, sign: float
) -> None:
    rng, offsets, size, rows = np.random.default_rng(seed), offsets_of(lengths), sum(lengths), len(lengths)
    weights, kept = weights_of(size, rng, sign), kept_of(rows, size, rng, by_token=by_token, by_rollout=by_rollout)
    k3, uncertainty = rng.random(size), rng.random(size)
    start = Totals(
        weights=rng.normal(size=(4, rows)),
        logs=rng.normal(size=(2, rows)),
        k3=rng.random((2, rows)),
        tokens=rng.integers(0, 9, (5, rows)),
        gradient=rng.random(rows),
    )
    found = Totals(*(values.copy() for values in start))
    add_applied(found, offsets, weights, kept, k3, uncertainty)
    for row, (first, last) in enumerate(pairwise(offsets)):
        mine = [token for token in range(first, last) if keeps(kept, row, token)]
        lost = [token for token in range(first, last) if token not in mine]
        value = [sign * math.exp(weights.log[token]) for token in mine] + [0.0] * len(lost)
        sums = (value, [w * w for w in value], [w - 1 for w in value], [(w - 1) ** 2 for w in value])
        for total, before, terms in zip(found.weights[:, row], start.weights[:, row], sums, strict=True):
            assert_sum(total, before, terms)
        gradient = [abs(w) * uncertainty[token] for w, token in zip(value, mine, strict=False)]
        assert_sum(found.gradient[row], start.gradient[row], gradient)
        logs = [weights.log[token] for token in mine] + [-math.inf] * len(lost)
        assert found.logs[0, row] == min([start.logs[0, row], *logs])
        assert found.logs[1, row] == max([start.logs[1, row], *logs])
        assert_sum(found.k3[0, row], start.k3[0, row], [k3[token] for token in mine])
        assert_sum(found.k3[1, row], start.k3[1, row], [k3[token] for token in lost])
        changed = len(lost) + sum(weights.low[token] or weights.high[token] for token in mine)
        flagged = [flags[first:last].sum() for flags in (weights.low, weights.high)]
        counted = (sum(w < 0.5 or w > 2 for w in value), len(mine), changed, *flagged)
        assert (found.tokens[:, row] - start.tokens[:, row]).tolist() == list(counted)


@FILTERED
def test_a_histogram_of_ratios_becomes_one_of_applied_weights(
    lengths: list[int], seed: int, by_token: bool, by_rollout: bool, sign: float
) -> None:
    rng, whole_offsets, size, rows = np.random.default_rng(seed), offsets_of(lengths), sum(lengths), len(lengths)
    whole = log_ratios(size, rng)
    places = np.flatnonzero(rng.random(size) < 0.4)
    offsets = np.searchsorted(places, whole_offsets)
    weights = weights_of(places.size, rng, sign)
    kept = kept_of(rows, places.size, rng, by_token=by_token, by_rollout=by_rollout)
    counts = np.bincount(bin_of(whole), minlength=BINS + 1)
    move_applied(counts, offsets, whole[places], weights.log, kept, whole_offsets, whole)
    expected: Counter[int] = Counter()
    for row, (first, last) in enumerate(pairwise(whole_offsets)):
        for token in range(first, last):
            at = int(np.searchsorted(places, token))
            outside = at < places.size and places[at] == token
            if len(kept.rollouts) and not kept.rollouts[row]:
                expected[ZERO_WEIGHT] += 1
            elif not outside:
                expected[int(bin_of(whole[[token]])[0])] += 1
            elif keeps(kept, row, at) and weights.log[at] > -math.inf:
                expected[int(bin_of(weights.log[[at]])[0])] += 1
            else:
                expected[ZERO_WEIGHT] += 1
    assert {int(at): int(counts[at]) for at in np.flatnonzero(counts)} == dict(expected)


@CASES
def test_sums_of_a_pair(lengths: list[int], seed: int) -> None:
    rng, offsets, size, rows = np.random.default_rng(seed), offsets_of(lengths), sum(lengths), len(lengths)
    d = log_ratios(size, rng)
    exact, ratio = np.clip(d.astype(float), -LIMIT, LIMIT), np.exp(d)
    sums, counts = np.empty((len(SUMS), rows)), np.empty((len(COUNTS), rows), dtype=np.int64)
    extremes = np.empty((2, rows))
    sum_outside(sums, offsets, exact, np.expm1(exact), np.exp(exact), np.expm1(exact) - exact)
    count_outside(counts, offsets, ratio, exact, LIMIT)
    find_range(extremes, offsets, d)
    for row, (first, last) in enumerate(pairwise(offsets)):
        mine = [float(x) for x in exact[first:last]]
        rho = [math.exp(x) for x in mine]
        terms = {
            "log_ratio_sq": [x * x for x in mine],
            "abs_sum": [abs(x) for x in mine],
            "exp_abs_sum": [math.exp(abs(x)) for x in mine],
            "weight_sum": rho,
            "weight_sq": [w * w for w in rho],
            "excess_sum": [math.expm1(x) for x in mine],
            "excess_sq": [math.expm1(x) ** 2 for x in mine],
            "k3_sum": [math.expm1(x) - x for x in mine],
        }
        for name, total in zip(SUMS, sums[:, row], strict=True):
            assert_sum(total, 0.0, terms[name])
        assert counts[0, row] == sum(r < 0.5 for r in ratio[first:last])
        assert counts[1, row] == sum(r > 2 for r in ratio[first:last])
        assert counts[2, row] == sum(abs(x) >= LIMIT for x in mine)
        assert extremes[0, row] == min(map(float, d[first:last]), default=math.inf)
        assert extremes[1, row] == max(map(float, d[first:last]), default=-math.inf)


@CASES
def test_sums_by_q(lengths: list[int], seed: int) -> None:
    rng, offsets, size = np.random.default_rng(seed), offsets_of(lengths), sum(lengths)
    inference = -np.abs(rng.normal(0, 1, size)).astype(np.float32)
    edges = np.log(EDGES).astype(np.float32)
    certainty, k3, exact = rng.random(size), rng.random(size), rng.normal(size=size)
    sums = np.empty((4, len(EDGES) + 1, len(lengths)))
    sum_outside_by_bucket(sums, offsets, inference, edges, certainty, k3, exact)
    for row, (first, last) in enumerate(pairwise(offsets)):
        for bucket in range(len(EDGES) + 1):
            mine = [t for t in range(first, last) if sum(inference[t] >= edge for edge in edges) == bucket]
            assert sums[0, bucket, row] == len(mine)
            for total, values in zip(sums[1:, bucket, row], (k3, np.abs(exact), certainty), strict=True):
                assert_sum(total, 0.0, [float(values[token]) for token in mine])
