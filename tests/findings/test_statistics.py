"""The tests that findings decide with, against plain ones and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from iscope.analysis.findings.agreement import agreement
from iscope.analysis.findings.statistics import chance_of_at_least, chance_of_t, ratio, trend
from iscope.analysis.findings.tokens import Tokens
from iscope.api import make_plan
from iscope.dump import open_dump
from iscope.engines import local
from tests.findings.factory import language


def binomial_tail(hits, trials, rate):
    return sum(math.comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(hits, trials + 1))


@pytest.mark.parametrize(("hits", "trials", "rate"), [(3, 10, 0.01), (20, 100, 0.1), (10, 10, 0.3), (1, 50, 0.001)])
def test_chernoff_bounds_the_binomial_tail(hits, trials, rate):
    exact = binomial_tail(hits, trials, rate)
    bound = chance_of_at_least(hits, trials, rate)
    assert exact * (1 - 1e-12) <= bound <= 60 * exact


def test_chance_without_evidence():
    assert chance_of_at_least(0, 0, 0.5) == 1
    assert chance_of_at_least(1, 10, 0.2) == 1
    assert chance_of_at_least(1, 10, 0.0) == 0


# Quantiles of Student's t as printed in tables: one-sided chance, degrees of freedom, t.
@pytest.mark.parametrize(
    ("chance", "freedom", "t"), [(0.05, 1, 6.314), (0.01, 5, 3.365), (0.005, 11, 3.106), (0.001, 30, 3.385)]
)
def test_student(chance, freedom, t):
    assert chance_of_t(t, freedom) == pytest.approx(chance, rel=2e-3)
    assert chance_of_t(-t, freedom) == pytest.approx(1 - chance, rel=1e-4)


def test_ratio_of_clusters_by_hand():
    part, whole, clusters = np.array([1.0, 2.0, 4.0, 1.0]), np.array([2.0, 2.0, 4.0, 2.0]), np.array([0, 0, 2, 5])
    found = ratio(part, whole, clusters)
    assert found.value == 0.8
    rest = [1 + 2 - 0.8 * 4, 4 - 0.8 * 4, 1 - 0.8 * 2]
    assert found.error == pytest.approx(math.sqrt(sum(r * r for r in rest) * 3 / 2) / 10)
    assert found.clusters == 3


def test_trend_against_least_squares():
    rng = np.random.default_rng(0)
    x, control, weight = rng.normal(size=40), rng.normal(size=40), rng.uniform(0.5, 2, 40)
    y = 0.3 * x - 0.2 * control + rng.normal(0, 0.1, 40)
    design = np.stack([np.ones(40), x, control], axis=1)
    inverse = np.linalg.inv(design.T @ (weight[:, None] * design))
    coefficients = inverse @ design.T @ (weight * y)
    scores = design * (weight * (y - design @ coefficients))[:, None]
    covariance = inverse @ scores.T @ scores @ inverse * 40 / 37
    found = trend(x, y, weight, control)
    assert found.slope == pytest.approx(coefficients[1])
    assert found.z == pytest.approx(coefficients[1] / math.sqrt(covariance[1, 1]))


def test_trend_of_too_little():
    assert trend(np.ones(2), np.ones(2), np.ones(2)).z == 0
    assert trend(np.ones(9), np.arange(9.0), np.ones(9)).z == 0


def alike(one, other):
    return np.abs(one - other) <= 0.02


def plain_agreement(rollouts):
    """The same sum written out: group by group, draw by draw, over the pairs that share everything before it."""
    excess, draws = 0.0, 0
    groups = {}
    for group, v in zip(rollouts.columns["group_id"], rollouts.inference, strict=True):
        groups.setdefault(group, []).append(np.float32(v))
    for rows in groups.values():
        for one in rows:
            for place in range(len(one)):
                others = [o for o in rows if o is not one and len(o) > place and alike(o[:place], one[:place]).all()]
                if not others:
                    break
                equal = sum(alike(o[place], one[place]) for o in others)
                excess += equal / len(others) - math.exp(one[place])
                draws += 1
    return excess / draws, draws


@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_agreement_against_a_plain_count(temperature):
    rollouts = language(temperature=temperature, groups=12, length=8)
    ledger = local.run(open_dump([rollouts.table()]).batches(), make_plan([]))
    tokens = Tokens.of(ledger.sample)
    found = agreement(tokens, np.ones(tokens.rollouts, dtype=bool))
    excess, draws = plain_agreement(rollouts)
    assert found.draws == draws
    assert found.excess.value == pytest.approx(excess)


def test_agreement_averages_to_nothing_when_the_logprobs_are_the_sampler_s():
    scores = []
    for seed in range(12):
        ledger = local.run(open_dump([language(seed, groups=30, length=6).table()]).batches(), make_plan([]))
        tokens = Tokens.of(ledger.sample)
        scores.append(agreement(tokens, np.ones(tokens.rollouts, dtype=bool)).excess.z())
    assert abs(sum(scores)) / math.sqrt(len(scores)) < 3
    assert np.std(scores) < 1.8
