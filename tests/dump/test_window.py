from __future__ import annotations

import numpy as np
import pytest

from iscope.dump.frames import FrameSource
from iscope.dump.table import open_table
from iscope.dump.window import Window

ROWS = 400


@pytest.fixture
def table(make):
    source = FrameSource.of(make([10] * ROWS), "frame")
    wanted = ["trainer_logprobs", "rollout_id"]
    return open_table([source], wanted, anchor="trainer_logprobs", needed=wanted, overrides={})


def asked(order: str) -> np.ndarray:
    rows = np.arange(ROWS)
    if order == "gaps":
        return rows[rows % 3 != 0]
    if order == "near":
        return rows.reshape(-1, 4)[:, ::-1].reshape(-1)
    return rows if order == "same" else np.random.default_rng(0).permutation(rows)


@pytest.mark.parametrize("order", ["same", "gaps", "near", "shuffled"])
@pytest.mark.parametrize("at_once", [1, 7, ROWS])
def test_rows_come_as_asked(table, order, at_once):
    rows = asked(order)
    window = Window(table, rows, batch_tokens=100)
    pieces = [window.take(rows[first : first + at_once]) for first in range(0, len(rows), at_once)]
    found = [name for piece in pieces for name in piece["rollout_id"].to_pylist()]
    assert found == [f"r{row}" for row in rows]
    assert [len(x) for piece in pieces for x in piece["trainer_logprobs"].to_pylist()] == [10] * len(rows)


@pytest.mark.parametrize("order", ["same", "gaps", "near"])
def test_little_is_held_where_the_orders_agree(table, order):
    rows = asked(order)
    window = Window(table, rows, batch_tokens=100)
    for first in range(0, len(rows), 8):
        window.take(rows[first : first + 8])
        assert window._held.num_rows <= 40
