"""The compiled walk over tokens against plain sums of each rollout."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iscope.ledger import histogram
from iscope.ledger.kernels.extremes import extremes_of
from iscope.ledger.kernels.ratios import SUMS
from iscope.ledger.kernels.tokens import EDGES
from iscope.ledger.kernels.walk import Found, Limits, Tokens, nothing_found, scratch_of, walk

BAND = (-0.3, 0.25)
SIGNS = (1, -1)


def tokens_of(lengths: list[int], kind: type, seed: int, pairs: int, losses: int) -> Tokens:
    rng, size = np.random.default_rng(seed), sum(lengths)
    inference = -np.abs(rng.normal(0, 1, size)).astype(kind)
    inference[rng.random(size) < 0.2] = 0
    log_ratios = rng.normal(0, 0.2, (pairs, size)).astype(kind)
    log_ratios[:, rng.random(size) < 0.05] *= 200
    return Tokens(
        offsets=np.cumsum([0, *lengths]),
        trainer=inference + log_ratios[0],
        inference=inference,
        policy=inference + log_ratios[-1],
        log_ratios=log_ratios,
        unknown=rng.random(size) < 0.1 if seed % 2 else np.empty(0, dtype=bool),
        advantage=rng.normal(size=size) if seed % 3 == 0 else np.empty(0),
        sizes=np.abs(rng.normal(size=(losses, size))),
        signals=rng.choice([-1.0, 0.0, 1.0], (losses, size)),
    )


def limits_of(kind: type, pairs: int) -> Limits:
    band = np.array([BAND] * pairs, dtype=kind).T.copy()
    floors = np.array([0.1, *[np.inf] * (pairs - 1)], dtype=kind)
    weighting = np.array([True] * pairs)
    return Limits(*band, floors, np.log(EDGES).astype(kind), np.array([math.log(0.999)], dtype=kind), weighting)


def walked(tokens: Tokens, limits: Limits, blocks: list[int]) -> Found:
    found = nothing_found(tokens)
    walk(tokens, limits, np.array(blocks), scratch_of(int(tokens.offsets[-1]), len(tokens.offsets)), found)
    return found


def outside(tokens: Tokens, limits: Limits, token: int) -> bool:
    beyond = any(
        d[token] < low or d[token] > high
        for d, low, high in zip(tokens.log_ratios, limits.low, limits.high, strict=True)
    )
    return beyond or bool(len(tokens.unknown) and tokens.unknown[token])


def p_minus_one(logprob: float) -> float:
    return min(math.expm1(logprob), 0.0)


def assert_sum(found: float, terms: list[float]) -> None:
    assert abs(found - math.fsum(terms)) <= 1e-13 * math.fsum(map(abs, terms))


CASES = given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=8),
    seed=st.integers(0, 10**6),
    pairs=st.integers(1, 3),
    losses=st.integers(0, 2),
)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@CASES
def test_every_sum_is_that_of_its_tokens(kind: type, lengths: list[int], seed: int, pairs: int, losses: int) -> None:
    tokens, limits = tokens_of(lengths, kind, seed, pairs, losses), limits_of(kind, pairs)
    found = walked(tokens, limits, [0, len(lengths)])
    for row, (start, stop) in enumerate(zip(tokens.offsets, tokens.offsets[1:], strict=False)):
        every = range(start, stop)
        inside = [token for token in every if not outside(tokens, limits, token)]
        for column, sums in zip([tokens.trainer, tokens.inference, *tokens.log_ratios], found.sums, strict=True):
            assert_sum(sums[row], [float(column[token]) for token in every])
        certainty = {token: p_minus_one(float(tokens.policy[token])) for token in inside}
        for pair, log_ratio in enumerate(tokens.log_ratios):
            d = {token: float(log_ratio[token]) for token in inside}
            assert_pair(found.inside[pair][:, row], d, certainty)
            low, high = extremes_of(found.keys[pair])[:, row]
            assert (low, high) == (min(d.values(), default=math.inf), max(d.values(), default=-math.inf))
            for loss in range(losses):
                weighted = {token: math.exp(d[token]) * certainty[token] for token in inside}
                assert_signed(found.signed[loss, 1 + pair, :, row], tokens, loss, weighted)
        for loss in range(losses):
            assert_signed(found.signed[loss, 0, :, row], tokens, loss, certainty)
        assert_buckets(found.buckets[:, :, row], tokens, limits, inside)


def assert_pair(found: np.ndarray, d: dict[int, float], certainty: dict[int, float]) -> None:
    sums = dict(zip(SUMS, found, strict=True))
    assert_sum(sums["log_ratio_sq"], [x * x for x in d.values()])
    assert_sum(sums["abs_sum"], [abs(x) for x in d.values()])
    assert_sum(sums["exp_abs_sum"], [math.exp(abs(x)) for x in d.values()])
    assert_sum(sums["excess_sum"], [math.expm1(x) for x in d.values()])
    assert_sum(sums["excess_sq"], [math.expm1(x) ** 2 for x in d.values()])
    k3 = [math.expm1(x) - x for x in d.values()]
    assert abs(sums["k3_sum"] - math.fsum(k3)) <= 1e-15 * math.fsum(map(abs, d.values())) + 1e-13 * math.fsum(k3)
    assert_sum(sums["weighted"], [math.exp(x) * certainty[token] for token, x in d.items()])


def assert_signed(found: np.ndarray, tokens: Tokens, loss: int, weighted: dict[int, float]) -> None:
    for total, sign in zip(found, SIGNS, strict=True):
        mine = [token for token in weighted if tokens.signals[loss, token] * sign > 0]
        assert_sum(total, [-weighted[token] * tokens.sizes[loss, token] for token in mine])


def assert_buckets(found: np.ndarray, tokens: Tokens, limits: Limits, inside: list[int]) -> None:
    for bucket in range(4):
        mine = [t for t in inside if sum(tokens.inference[t] >= edge for edge in limits.edges) == bucket]
        d = [float(tokens.log_ratios[0, token]) for token in mine]
        factor = [abs(tokens.advantage[token]) if len(tokens.advantage) else 1.0 for token in mine]
        assert found[0, bucket] == len(mine)
        assert abs(found[1, bucket] - math.fsum(math.expm1(x) - x for x in d)) <= 1e-14 * len(mine)
        assert_sum(found[2, bucket], [abs(x) for x in d])
        gradient = [p_minus_one(float(tokens.policy[t])) * f for t, f in zip(mine, factor, strict=True)]
        assert_sum(found[3, bucket], gradient)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@CASES
def test_every_token_is_counted_and_told_apart(
    kind: type, lengths: list[int], seed: int, pairs: int, losses: int
) -> None:
    tokens, limits = tokens_of(lengths, kind, seed, pairs, losses), limits_of(kind, pairs)
    found = walked(tokens, limits, [0, len(lengths)])
    size = sum(lengths)
    for counts, log_ratio in zip(found.counts[1:], tokens.log_ratios, strict=True):
        expected = np.bincount(histogram.bin_of(log_ratio), minlength=histogram.BINS + 1)
        np.testing.assert_array_equal(counts.sum(0), expected)
    assert found.counts[0].sum() == size
    certain = int((tokens.inference >= limits.certain[0]).sum())
    assert found.counts[0, :, histogram.ZERO_WEIGHT].sum() == certain
    places = found.outside[0, : found.taken[0]].tolist()
    assert places == [token for token in range(size) if outside(tokens, limits, token)]
    above = found.outside[1, : found.taken[1]].tolist()
    assert above == np.flatnonzero(tokens.log_ratios[0] > limits.floors[0]).tolist()
    assert not found.taken[2:].any()


@CASES
def test_blocks_change_no_bit(lengths: list[int], seed: int, pairs: int, losses: int) -> None:
    tokens, limits = tokens_of(lengths, np.float32, seed, pairs, losses), limits_of(np.float32, pairs)
    at_once = walked(tokens, limits, [0, len(lengths)])
    one_by_one = walked(tokens, limits, list(range(len(lengths) + 1)))
    for name in ("sums", "buckets", "inside", "keys", "signed", "taken"):
        np.testing.assert_array_equal(getattr(one_by_one, name), getattr(at_once, name), err_msg=name)
    np.testing.assert_array_equal(one_by_one.counts.sum(1), at_once.counts.sum(1))
