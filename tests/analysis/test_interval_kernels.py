"""The bootstrap's compiled loops against plain counterparts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from iscope.analysis.intervals.clusters import block_sums
from iscope.analysis.intervals.kernels import moves, sum_draws


@pytest.mark.parametrize("columns", [0, 1, 2, 4, 7])
@pytest.mark.parametrize("rows", [0, 1, 200])
def test_sums_over_blocks_row_after_row(columns: int, rows: int) -> None:
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
    values = np.random.default_rng(1).lognormal(0.0, 0.2, (3, 25))
    found = np.empty((3, 3))
    moves(found, values)
    for row, (most, acceleration, carrying) in zip(values.tolist(), found.T.tolist(), strict=True):
        moved = [math.fsum(row) / 25 - value for value in row]
        squares = math.fsum(move**2 for move in moved)
        assert most == pytest.approx(max(map(abs, moved)), rel=1e-12)
        assert acceleration == pytest.approx(math.fsum(move**3 for move in moved) / (6 * squares**1.5), rel=1e-10)
        assert carrying == pytest.approx(squares**2 / math.fsum(move**4 for move in moved), rel=1e-12)


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_a_value_that_is_no_number_shows(odd: float) -> None:
    values = np.ones((2, 12))
    values[1, 5] = odd
    found = np.empty((3, 2))
    moves(found, values)
    assert found[0, 0] == 0
    assert not math.isfinite(found[0, 1])
