"""The canonical order, against sorting rows as tuples in plain Python."""

from __future__ import annotations

import math

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from iscope.ledger.order import order_by

FLOATS = st.sampled_from([0.0, -0.0, 1.0, -2.5, float("nan"), float("inf")])
ROW = st.tuples(
    FLOATS, FLOATS, st.none() | st.integers(-2, 2), st.none() | st.sampled_from(["", "a", "b", "ä", "ab"]), st.none()
)


def key(row) -> list[tuple[int, float | str | bytes]]:
    """Numbers before NaN before null; texts by their bytes."""
    found: list[tuple[int, float | str | bytes]] = []
    for value in row:
        if value is None:
            found.append((2, 0))
        elif isinstance(value, float) and math.isnan(value):
            found.append((1, 0))
        else:
            found.append((0, value.encode() if isinstance(value, str) else value + 0.0))
    return found


@given(st.lists(ROW, max_size=40))
def test_rows_are_ordered_by_one_column_after_the_other(rows):
    types = {"a": pl.Float64, "b": pl.Float64, "c": pl.Int64, "d": pl.String, "e": pl.String}
    frame = pl.DataFrame(rows, schema=types, orient="row")
    expected = sorted(range(len(rows)), key=lambda place: (key(rows[place]), place))
    assert order_by(frame, list(types)).tolist() == expected
