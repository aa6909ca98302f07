from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iscope.gates.combine import difference, growth, ratio, slope
from iscope.gates.decide import against_limit
from iscope.model import Figure
from tests.reference import gates as reference

positive = st.floats(1e-6, 1e6)
shares = st.floats(0.01, 0.9)
# A positive figure with its interval, as (value, low, high).
triples = st.tuples(positive, shares, shares).map(lambda t: (t[0], t[0] * (1 - t[1]), t[0] * (1 + t[2])))


def figure(triple):
    return Figure(triple[0], low=triple[1], high=triple[2])


def ends(found):
    return found.value, found.low, found.high


@given(triples, triples)
def test_difference_and_ratio_are_those_of_the_reference(here, there):
    assert ends(difference(figure(here), figure(there))) == pytest.approx(
        reference.difference(here, there), rel=1e-9, abs=1e-9 * (here[2] + there[2])
    )
    assert ends(ratio(figure(here), figure(there))) == pytest.approx(reference.ratio(here, there), rel=1e-9)


@given(st.lists(st.floats(-10, 10), min_size=3, max_size=20))
def test_slope_is_that_of_the_reference(values):
    places = [2.0 * k + 1 for k in range(len(values))]
    found = slope(places, [Figure(value) for value in values])
    expected = reference.slope(places, values)
    assert ends(found) == pytest.approx(expected, rel=1e-6, abs=1e-7)


@given(st.lists(triples, min_size=4, max_size=12), st.integers(1, 2))
def test_growth_is_that_of_the_reference(rows, window):
    found = growth([figure(row) for row in rows], window)
    assert ends(found) == pytest.approx(reference.growth(rows, window), rel=1e-9)


def test_a_ratio_to_nothing_is_absent():
    assert "0 in the baseline" in (ratio(Figure(1.0), Figure(0.0)).why or "")


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (Figure(1.0), Figure(2.0, low=1.0, high=3.0)),
        (Figure(1.0, low=0.5, high=2.0), Figure(2.0)),
        (Figure(1.0, low=-0.5, high=2.0), Figure(2.0, low=1.0, high=3.0)),
        (Figure(-1.0, low=-2.0, high=-0.5), Figure(2.0, low=1.0, high=3.0)),
    ],
)
def test_a_ratio_has_no_interval_where_one_is_missing_or_not_positive(here, there):
    found = ratio(here, there)
    assert found.value == here.value / there.value
    assert found.low is None
    assert found.high is None


@pytest.mark.parametrize("which", [0, 1])
def test_what_is_absent_says_why(which):
    both = [Figure(1.0), Figure(1.0)]
    both[which] = Figure.absent("nothing was scored")
    assert difference(*both).why == "nothing was scored"
    assert ratio(*both).why == "nothing was scored"


def test_overflow_is_absent_and_never_infinite():
    big, small = Figure(1e308, low=1e307, high=1.5e308), Figure(-1e308)
    assert difference(big, small).why == "the difference overflows"
    assert ratio(big, Figure(1e-308)).why == "the ratio overflows"
    wide = ratio(Figure(1.0, low=1e-300, high=1e300), Figure(1.0, low=1e-300, high=1e300))
    assert wide.value == 1.0
    assert wide.low is None


def test_trends_need_rows():
    two = [Figure(1.0), Figure(2.0)]
    assert "3 rows or more" in (slope([0.0, 1.0], two).why or "")
    assert "the same value" in (slope([1.0, 1.0, 1.0], [*two, Figure(3.0)]).why or "")
    assert "1 of 3 rows have no figure: none" in (slope([0.0, 1.0, 2.0], [*two, Figure.absent("none")]).why or "")
    assert "4 rows are needed" in (growth(two, 2).why or "")
    assert "no figure: none" in (growth([*two, Figure.absent("none"), Figure(1.0)], 2).why or "")


def test_a_straight_line_has_an_interval_of_no_width():
    found = slope([0.0, 1.0, 2.0, 3.0], [Figure(1.0 + 0.5 * k) for k in range(4)])
    assert ends(found) == pytest.approx((0.5, 0.5, 0.5))
    assert all(end is not None and math.isfinite(end) for end in ends(found))


sides = st.floats(-10, 10)


@given(st.tuples(sides, sides, sides).map(sorted), sides, st.booleans())
def test_a_figure_is_inside_beyond_or_in_the_noise_of_its_limit(ends_of_it, limit, upper):
    low, value, high = ends_of_it
    allowed = [end <= limit if upper else end >= limit for end in (low, high)]
    expected = "inside" if all(allowed) else "noise" if any(allowed) else "beyond"
    assert against_limit(Figure(value, low=low, high=high), limit, upper=upper) == expected
    plain = value <= limit if upper else value >= limit
    assert against_limit(Figure(value), limit, upper=upper) == ("inside" if plain else "beyond")
    mirrored = Figure(-value, low=-high, high=-low)
    assert against_limit(mirrored, -limit, upper=not upper) == expected
