"""The compiled loops of recipes' figures, and logs and exponentials with zeros, against plain counterparts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from iscope.analysis.figures.changes import count_changes
from iscope.analysis.figures.gradient import Gradients, see_signs, sum_apart
from iscope.analysis.figures.split_kl import split_k3
from iscope.analysis.figures.weight_ess import sum_repeated
from iscope.analysis.numbers import Scaled, exp_of, log_of, read_only, replace_low
from iscope.analysis.parts import Parts
from iscope.analysis.recipe_rows import spread_decisions
from iscope.analysis.rows import Rows
from iscope.ledger.rows import LedgerRows


@pytest.mark.parametrize("rows", [0, 1, 333])
def test_counts_of_changes_by_sign(rows: int) -> None:
    random = np.random.default_rng(rows)
    of, block = random.integers(0, 4, rows).astype(np.int8), random.integers(0, 7, rows)
    n = random.integers(1, 4, rows)
    kept = np.minimum(n, random.integers(0, 5, rows))
    raised, cut, modified = (random.integers(0, 3, rows) * (random.random(rows) < 0.6) for _ in range(3))
    found, moved, sums = np.zeros((3, 2, 4), np.int64), np.zeros(2, np.int64), np.zeros((7, 2))
    count_changes(
        found, moved, sums, of, block, *(read_only(column, np.int32) for column in (n, kept, raised, cut, modified))
    )
    columns = (of, block, n - kept, kept, raised + cut, modified)
    table = [*zip(*(column.tolist() for column in columns), strict=True)]
    for sign in range(4):
        some = [row[2:] for row in table if row[0] == sign]
        assert found[:, 0, sign].tolist() == [sum(row[at] for row in some) for at in (0, 2, 3)]
        rollouts = [[row[1] == 0 for row in some], [row[2] > 0 for row in some], [row[3] > 0 for row in some]]
        assert found[:, 1, sign].tolist() == [sum(flags) for flags in rollouts]
    assert moved.tolist() == [raised.sum(), cut.sum()]
    for at in range(7):
        assert sums[at].tolist() == [sum(row[column] for row in table if row[1] == at) for column in (2, 5)]


def test_decisions_on_rollouts_in_tokens() -> None:
    n, kept = np.array([3, 4, 5, 6, 7]), np.array([True, False, True, True, False])
    truncated, found = np.array([0, 0, -1, 1, 1]), np.empty((4, 5), np.int32)
    spread_decisions(found, *map(read_only, (n, kept, truncated), (np.int32, np.bool_, np.int8)))
    assert found.tolist() == [[3, 0, 5, 6, 0], [0, 0, 5, 0, 0], [0, 0, 0, 6, 7], [0, 4, 5, 6, 7]]


@pytest.mark.parametrize("together", [False, True])
def test_k3_of_kept_and_of_masked_tokens(together: bool) -> None:
    random = np.random.default_rng(1)
    n, block = random.integers(1, 5, 200), random.integers(0, 9, 200)
    kept = n * random.integers(0, 2, 200) if together else np.minimum(n, random.integers(0, 5, 200))
    k3 = random.random(200), random.random(200) * (1.0 if together else kept < n)
    of_kept, of_masked = (k3[0] * (kept > 0), k3[0] * (kept < n)) if together else k3
    sums, given = np.zeros(9), (k3[0], k3[0]) if together else k3
    columns = [*(read_only(one, np.int32) for one in (n, kept)), *(read_only(one, np.float64) for one in given)]
    total, masked_means, kept_means = split_k3(sums, block, *columns, together)
    assert sums == pytest.approx([of_kept[block == at].sum() for at in range(9)], rel=1e-13)
    assert total == pytest.approx(of_masked.sum(), rel=1e-13)
    assert masked_means == pytest.approx((of_masked / np.maximum(n - kept, 1)).sum(), rel=1e-13)
    assert kept_means == pytest.approx((of_kept / np.maximum(kept, 1)).sum(), rel=1e-13)


def test_sums_of_weights_that_count_several_times() -> None:
    random = np.random.default_rng(2)
    weights, repeats, block = random.random(100), random.integers(0, 5, 100), random.integers(0, 6, 100)
    sums = np.zeros((6, 2))
    sum_repeated(sums, block, read_only(weights, np.float64), read_only(repeats, np.int32))
    for power in (1, 2):
        expected = [(weights**power * repeats)[block == at].sum() for at in range(6)]
        assert sums[:, power - 1] == pytest.approx(expected, rel=1e-13)


def test_logs_of_gradients_moved() -> None:
    random = np.random.default_rng(3)
    positive, negative = (np.where(random.random(60) < 0.4, -np.inf, random.normal(size=60)) for _ in range(2))
    for by in (random.normal(size=60), np.array([0.7])):
        found = Gradients.moved(positive, negative, by)
        assert found.positive.tolist() == (positive + by).tolist()
        assert found.negative.tolist() == (negative + by).tolist()
        assert found.total == pytest.approx(np.logaddexp(positive, negative) + by, rel=1e-12)


def test_sums_of_what_is_apart() -> None:
    logs, others = np.array([0.0, 1.0, 2.0, 3.0, 4.0]), np.array([0.5, -np.inf, 4.0, 3.0, 0.0])
    values, block, sums = np.array([1.0, 2.0, 4.0, 8.0, 16.0]), np.array([0, 1, 0, 1, 1]), np.zeros(2)
    columns = [read_only(one, np.float64) for one in (values, logs, others)]
    assert sum_apart(sums, block, *columns, 1.0) == 2
    assert sums.tolist() == [4.0, 18.0]
    assert sum_apart(np.zeros(2), block, *columns, -np.inf) == 4
    assert sum_apart(np.zeros(2), block, *columns, 10.0) == 0


def test_counts_by_part() -> None:
    random = np.random.default_rng(4)
    key, counts = random.integers(0, 5, 300), random.integers(0, 3, 300)
    found = Parts.of(pl.Series(key), np.arange(300)).counts(counts)
    assert found.tolist() == [
        [int(of[key == value].sum()) for value in range(5)] for of in (counts, (counts > 0).astype(int))
    ]


def test_sums_beside_exponentials() -> None:
    for logs in (np.linspace(-5.0, 1.0, 77), np.array([-np.inf, 0.0, -720.0]), np.array([-np.inf, 0.5])):
        weights = Scaled(logs)
        plain = np.exp(logs - logs.max())
        assert weights.sum == pytest.approx(plain.sum(), rel=1e-14)
        assert weights.square_sum == pytest.approx((plain**2).sum(), rel=1e-14)
        assert weights.effective_size() == pytest.approx(plain.sum() ** 2 / (plain**2).sum(), rel=1e-14)


@pytest.mark.parametrize("flags", [[], [True], [True, False] * 20])
def test_columns_of_flags(flags: list[bool]) -> None:
    for start in (0, 1, 9):
        frame = pl.DataFrame({"flag": pl.Series(flags, dtype=pl.Boolean)})[start:]
        assert Rows(LedgerRows.of(frame), {})["flag"].tolist() == flags[start:]


def test_signs_that_groups_have() -> None:
    random = np.random.default_rng(0)
    group = random.integers(0, 40, 100)
    positive, negative = (np.where(random.random(100) < 0.5, -np.inf, random.normal(size=100)) for _ in range(2))
    seen = np.zeros(40, dtype=np.uint8)
    see_signs(seen, read_only(group, np.int64), read_only(positive, np.float64), read_only(negative, np.float64))
    for at in range(40):
        some = group == at
        assert seen[at] == np.isfinite(positive[some]).any() + 2 * np.isfinite(negative[some]).any()


@pytest.mark.parametrize("lowest", [-5.0, -708.0, -740.0, -5000.0])
@pytest.mark.parametrize("zeros", [False, True])
def test_exponentials_and_logs(lowest: float, zeros: bool) -> None:
    logs = np.linspace(lowest, 3.0, 500)
    logs[::7] = -np.inf if zeros else 0.0
    assert exp_of(logs) == pytest.approx(np.exp(logs), rel=4e-16, abs=0)
    assert exp_of(logs, 2.0) == pytest.approx(np.exp(logs - 2.0), rel=4e-16, abs=0)
    assert exp_of(logs.reshape(2, -1)).shape == (2, 250)
    assert log_of(np.exp(logs))[logs > -700].tolist() == np.log(np.exp(logs[logs > -700])).tolist()


@pytest.mark.parametrize("odd", [np.nan, np.inf, 800.0, -800.0])
def test_exponentials_of_what_is_out_of_range(odd: float) -> None:
    logs = np.array([0.5, odd, -np.inf])
    with np.errstate(over="ignore"):
        assert np.array_equal(exp_of(logs), np.exp(logs), equal_nan=True)


def test_low_values_are_replaced() -> None:
    values = np.array([-np.inf, -8.0, -7.0, -6.0, np.nan, np.inf])
    found = np.arange(6.0)
    assert replace_low(found, read_only(values, np.float64), -7.0, 9.0) == 2
    assert found.tolist() == [9.0, 9.0, 9.0, 3.0, 4.0, 5.0]


def test_logs_of_zeros_and_of_the_smallest_number() -> None:
    assert log_of(np.array([0.0, 5e-324, 1.0])).tolist() == [-np.inf, np.log(5e-324), 0.0]
    assert exp_of(np.zeros(0)).size == log_of(np.zeros(0)).size == 0
