"""Rows in pieces, in memory and in files, against one frame of polars."""

from __future__ import annotations

import pickle

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iscope.ledger import rows as rows_module
from iscope.ledger.rows import Held, LedgerRows, Piece, Recent
from iscope.ledger.run import Spill

WHOLE = pl.DataFrame(
    {
        "id": [f"r{index}" for index in range(12)],
        "a.b": np.linspace(-1.0, 1.0, 12),
        "a": pl.Series([None if index % 4 == 0 else index for index in range(12)], dtype=pl.Int32),
        "late": [None] * 5 + ["x", "y"] + [None] * 5,
    }
)


def pieces(*cuts: int, filed: bool) -> list[Piece]:
    """The whole cut into pieces; those without a value of the last column lack it."""
    found: list[Piece] = []
    for first, last in zip((0, *cuts), (*cuts, 12), strict=True):
        frame = WHOLE[first:last]
        frame = frame.drop("late") if frame["late"].null_count() == frame.height else frame
        if filed:
            spill = Spill()
            spill.add(frame[:1])
            spill.add(frame[1:])
            found += spill.finish()
        else:
            found.append(Held(frame))
    return found


@given(filed=st.booleans(), data=st.data())
def test_choosing_and_stacking(filed, data):
    rows = LedgerRows(pieces(5, 7, filed=filed))
    assert rows.to_frame().equals(WHOLE)
    places = np.array(data.draw(st.lists(st.integers(0, 11), max_size=15)), dtype=np.int64)
    chosen, expected = rows.chosen(places), WHOLE[places]
    flags = np.array(data.draw(st.lists(st.booleans(), min_size=places.size, max_size=places.size)), dtype=bool)
    some = chosen.where(flags)
    assert chosen.height == places.size
    assert some.to_frame().equals(expected.filter(pl.Series(flags, dtype=pl.Boolean)))
    stacked = LedgerRows.stacked([some, rows, chosen])
    assert stacked.to_frame().equals(pl.concat([some.to_frame(), WHOLE, expected]))
    assert len(stacked.pieces) == len(rows.pieces)  # which are read once
    assert stacked.select(["a", "a.b"]).equals(stacked.to_frame().select("a", "a.b"))
    assert LedgerRows.stacked([stacked, LedgerRows.of(WHOLE)]).to_frame().equals(pl.concat([stacked.to_frame(), WHOLE]))


def test_a_copy_for_another_process_has_its_rows_in_memory():
    rows = LedgerRows(pieces(6, filed=True)).chosen(np.array([7, 2]))
    again = pickle.loads(pickle.dumps(rows))
    assert again.in_memory
    assert not rows.in_memory
    assert again.equals(rows)


def test_a_column_that_is_not_there():
    with pytest.raises(KeyError):
        LedgerRows(pieces(6, filed=True))["nothing"]


def test_what_was_asked_for_last_is_kept(monkeypatch):
    monkeypatch.setattr(rows_module, "RECENT", 100)
    recent = Recent[str](0)
    recent.put("a", "A", 50)
    recent.put("b", "B", 50)
    assert recent.get("a") == "A"
    recent.put("c", "C", 40)
    assert [recent.get(name) for name in "abc"] == ["A", None, "C"]
    recent.put("d", "D", 101)
    assert [recent.get(name) for name in "acd"] == ["A", "C", None]
