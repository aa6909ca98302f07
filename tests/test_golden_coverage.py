"""How many golden cases are left out, and why: randomness, or something that no replay is given."""

from __future__ import annotations

import polars as pl

from tests.test_golden_skyrl import NOT_REPLAYED as SKYRL

ROLLOUTS = "rollouts"


def test_hardly_any_case_is_left_out(golden):
    files = [path for path in sorted(golden.glob("*.parquet")) if not path.stem.startswith(ROLLOUTS)]
    found = {path.stem: pl.read_parquet(path, columns=["case"]) for path in files}
    assert len(found) > 20
    left_out = 0
    for name, frame in found.items():
        if name.startswith("skyrl"):
            numbers = {number for group in SKYRL.values() for number in group}
            assert numbers <= set(frame["case"].to_list())
            left_out += len(numbers)
    total = sum(frame.height for frame in found.values())
    assert 0 < left_out <= 0.02 * total
