"""Order statistics against values that are put in order."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iscope.analysis.order_statistics import at_ranks, largest, median, quantiles, rank_of

NUMBERS = st.floats(allow_nan=False) | st.integers(-3, 3).map(float)


@given(st.lists(NUMBERS, min_size=1, max_size=60), st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_values_at_ranks(values: list[float], shares: list[float]) -> None:
    ranks = sorted(int(share * (len(values) - 1)) for share in shares)
    given_ = np.array(values)
    assert at_ranks(given_, *ranks) == [sorted(values)[rank] for rank in ranks]
    assert given_.tolist() == values
    count = 1 + ranks[0]
    assert sorted(largest(given_, count).tolist()) == sorted(values)[len(values) - count :]


@pytest.mark.parametrize("size", [199, 200, 5_000, 100_001])
@pytest.mark.parametrize("kind", ["apart", "equal", "rising", "falling", "mostly zero", "heavy", "infinite"])
def test_many_values_of_every_kind(kind: str, size: int) -> None:
    random = np.random.default_rng(size)
    values = {
        "apart": random.normal(0, 1, size),
        "equal": np.full(size, 0.3),
        "rising": np.arange(size) / 3,
        "falling": np.arange(size)[::-1] / 3,
        "mostly zero": np.where(random.random(size) < 0.8, 0.0, random.normal(0, 1, size)),
        "heavy": random.standard_cauchy(size) * 1e200,
        "infinite": np.where(random.random(size) < 0.5, -np.inf, random.normal(0, 1, size)),
    }[kind]
    ranks = [rank_of(share, size) for share in (0.0, 0.001, 0.01, 0.5, 0.5, 0.99, 0.999, 1.0)]
    assert at_ranks(values, *ranks) == np.sort(values)[ranks].tolist()


@given(st.lists(st.floats(-1e9, 1e9) | st.integers(-2, 2).map(float), min_size=1, max_size=50))
def test_medians_and_quantiles_are_those_of_numpy(values: list[float]) -> None:
    assert median(np.array(values)) == pytest.approx(np.median(values), rel=1e-12, abs=1e-300)
    for dtype in (np.float32, np.int64):
        some = np.array(values).astype(dtype)
        assert quantiles(some, 0.1, 1 / 3, 0.999) == pytest.approx(
            np.quantile(some.astype(np.float64), (0.1, 1 / 3, 0.999)).tolist(), rel=1e-9, abs=1e-9
        )


def test_infinities_and_what_is_no_number() -> None:
    assert median(np.array([-np.inf, 1.0])) == -np.inf
    assert median(np.array([np.inf, np.inf, 1.0])) == np.inf
    assert math.isnan(median(np.array([np.nan, 1.0, 2.0])))
    assert all(map(math.isnan, at_ranks(np.array([1.0, np.nan]), 0, 1)))


@pytest.mark.parametrize(("share", "rank"), [(0.0, 0), (0.001, 0), (0.5, 4), (0.51, 5), (1.0, 9)])
def test_ranks_of_the_inverted_cdf(share: float, rank: int) -> None:
    assert rank_of(share, 10) == rank
