from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

FACTS = json.loads((Path(__file__).parent / "data" / "sample_facts.json").read_text(encoding="utf-8"))


def test_sample_data_stays_small(sample_data: Path) -> None:
    assert sum(path.stat().st_size for path in sample_data.rglob("*.parquet")) < 4e6


def test_joined_dump_is_the_join_of_its_sides(sample_data: Path) -> None:
    join = runpy.run_path(str(sample_data / "make.py"))["join"]
    trainer = pq.read_table(sample_data / "train_async" / "trainer_fp32.parquet")
    vllm = pq.read_table(sample_data / "train_async" / "vllm.parquet")
    joined = pq.read_table(sample_data / "train_async.parquet")
    backwards = trainer.take(np.arange(trainer.num_rows)[::-1])
    assert join(backwards, vllm).equals(joined)
    with pytest.raises(ValueError, match="do not hold the same rollouts"):
        join(trainer.slice(1), vllm)
    with pytest.raises(ValueError, match="do not hold the same token ids"):
        join(trainer.set_column(2, "token_ids", backwards["token_ids"]), vllm)


@pytest.mark.parametrize("name", ["base", "lagged", "train_sync", "train_async"])
def test_reduced_dumps_are_the_sample_data(name: str, sample: Path, sample_data: Path) -> None:
    files = sorted((sample_data / name).glob("*.parquet"))
    assert len(files) >= 2
    for file in files:
        reduced = pq.read_table(sample / name / file.name)
        assert pq.read_table(file).select(reduced.column_names).equals(reduced)


def test_every_fact_has_its_dump(sample: Path) -> None:
    found = {(path.parent.name, path.name) for path in sample.glob("*/trainer*.parquet")}
    assert {(row["dump"], row["trainer"]) for row in FACTS["dumps"]} == found
    for row in FACTS["dumps"]:
        table = pq.read_table(sample / row["dump"] / row["trainer"], columns=["logprobs", "loss_mask"])
        assert (row["rollouts"], row["tokens"]) == (table.num_rows, sum(map(sum, table["loss_mask"].to_pylist())))
