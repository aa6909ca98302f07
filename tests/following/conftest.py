from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest


@pytest.fixture(scope="module")
def steps(sample_data, tmp_path_factory) -> list[Path]:
    """A real run, a file for each step."""
    folder = tmp_path_factory.mktemp("steps")
    frame = pl.read_parquet(sample_data / "train_async.parquet")
    for step, rows in sorted(frame.partition_by("step", as_dict=True).items()):
        rows.write_parquet(folder / f"step_{step[0]}.parquet")
    return sorted(folder.iterdir())
