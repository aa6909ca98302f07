"""The bootstrap's compiled loops against plain counterparts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from iscope.analysis.intervals.clusters import block_sums
from iscope.analysis.intervals.kernels import (
    between,
    count_replicates,
    middle_and_spread,
    moves,
    sum_draws,
    to_the_front,
)


@pytest.mark.parametrize("columns", [0, 1, 2, 4, 7])
@pytest.mark.parametrize("rows", [0, 1, 200])
def test_sums_over_blocks(columns: int, rows: int) -> None:
    random = np.random.default_rng(rows)
    block = random.integers(0, 7, rows)
    values = [random.lognormal(0, 3, rows), random.integers(0, 9, rows).astype(np.int32), random.random(rows) < 0.5]
    asked = (values * 3)[:columns]
    expected = [
        [sum((x for x, b in zip(column, block, strict=True) if b == at), 0.0) for at in range(7)] for column in asked
    ]
    assert [sums.tolist() for sums in block_sums(block, 7, asked)] == expected


@pytest.mark.parametrize("columns", [1, 2, 5, 8])
@pytest.mark.parametrize("blocks", [10, 37])
def test_sums_over_draws_are_exact(columns: int, blocks: int) -> None:
    random = np.random.default_rng(columns)
    whole = random.integers(-(2**40), 2**40, (columns, blocks))
    times = random.integers(0, 5, (12, blocks))
    found = np.empty((columns, 12))
    sum_draws(found, whole.astype(np.float64), times.astype(np.float32))
    expected = [[sum(int(x) * int(t) for x, t in zip(column, draw, strict=True)) for draw in times] for column in whole]
    assert found.tolist() == expected


def test_moves_without_a_block() -> None:
    values = np.random.default_rng(1).lognormal(0.0, 0.2, 25)
    most, acceleration, carrying = moves(values)
    moved = [math.fsum(values) / 25 - value for value in values.tolist()]
    squares = math.fsum(move**2 for move in moved)
    assert most == pytest.approx(max(map(abs, moved)), rel=1e-12)
    assert acceleration == pytest.approx(math.fsum(move**3 for move in moved) / (6 * squares**1.5), rel=1e-10)
    assert carrying == pytest.approx(squares**2 / math.fsum(move**4 for move in moved), rel=1e-12)


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_a_value_that_is_no_number_shows(odd: float) -> None:
    values = np.ones(12)
    assert moves(values)[0] == 0
    values[5] = odd
    assert not math.isfinite(moves(values)[0])


@pytest.mark.parametrize("gone", [[], [0], [3, 4, 40]])
def test_counts_of_replicates_and_numbers_first(gone: list[int]) -> None:
    values = np.round(np.random.default_rng(2).normal(0, 1, 41), 1)
    values[gone] = [math.nan, math.inf, -math.inf][: len(gone)]
    numbers = [value for value in values.tolist() if math.isfinite(value)]
    one = numbers[9]
    twice = 2 * sum(value < one for value in numbers) + sum(value == one for value in numbers)
    assert count_replicates(values, one) == (len(numbers), twice)
    assert to_the_front(values) == len(numbers)
    assert values[: len(numbers)].tolist() == numbers


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("guess", [-9.0, -0.7, 0.0, 0.7, 9.0])
def test_a_place_between_two_values_whatever_the_guess(guess: float, side: int) -> None:
    values = np.random.default_rng(3).normal(0, 1, 100)
    for place in (0.0, 2.25, 50.5, 98.0, 98.75, 99.0):
        found = between(values.copy(), np.empty(100), place, guess, side)
        assert found == pytest.approx(np.quantile(values, place / 99), abs=1e-12)
    mean, spread = middle_and_spread(values)
    assert (mean, spread) == pytest.approx((values.mean(), values.std()), rel=1e-12)
