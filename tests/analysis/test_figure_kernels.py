"""The compiled loops of recipes' figures, and logs and exponentials with zeros, against plain counterparts."""

from __future__ import annotations

import numpy as np
import pytest

from iscope.analysis.figures.changes import count_changes
from iscope.analysis.figures.gradient import see_signs
from iscope.analysis.numbers import exp_of, log_of, read_only, replace_low


@pytest.mark.parametrize("rows", [0, 1, 333])
def test_counts_of_changes_by_sign(rows: int) -> None:
    random = np.random.default_rng(rows)
    of = random.integers(0, 4, rows).astype(np.int8)
    n, kept, truncated, modified = (random.integers(0, 3, rows) for _ in range(4))
    found = np.empty((3, 2, 4), dtype=np.int64)
    count_changes(found, of, *(read_only(column, np.int64) for column in (n, kept, truncated, modified)))
    table = [*zip(of.tolist(), (n - kept).tolist(), kept.tolist(), truncated.tolist(), modified.tolist(), strict=True)]
    for sign in range(4):
        some = [row[1:] for row in table if row[0] == sign]
        assert found[:, 0, sign].tolist() == [sum(row[at] for row in some) for at in (0, 2, 3)]
        rollouts = [[row[1] == 0 for row in some], [row[2] > 0 for row in some], [row[3] > 0 for row in some]]
        assert found[:, 1, sign].tolist() == [sum(flags) for flags in rollouts]


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
