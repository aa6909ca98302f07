"""Ratio columns that a dump brings along."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from iscope.dump import open_dump
from iscope.dump.supplied import supplied_ratios


@pytest.mark.parametrize("kind", [pl.Boolean, pl.Int32, pl.Int64, pl.Float32])
def test_the_loss_mask_may_be_of_any_kind_and_hold_nulls(tmp_path: Path, kind: type[pl.DataType]) -> None:
    frame = pl.DataFrame(
        {
            "trainer_logprobs": [[-1.0, -2.0, -0.5]],
            "inference_logprobs": [[-1.0, -2.5, -0.5]],
            "loss_mask": pl.Series([[1, None, 0]]).cast(pl.List(kind)),
            "importance_ratio": [[1.0, 1.65, 1.0]],
        }
    )
    frame.write_parquet(tmp_path / "dump.parquet")
    (supplied,) = supplied_ratios(open_dump((tmp_path / "dump.parquet",)))
    assert supplied.name == "importance_ratio"
    assert supplied.loss.tolist() == [True, False, False]
    assert supplied.values.tolist() == [1.0, 1.65, 1.0]
