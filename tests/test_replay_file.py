"""The file that a replay writes: what it holds, and that it is there as a whole or not at all."""

from __future__ import annotations

import os

import polars as pl
import pyarrow.parquet as pq
import pytest

import iscope
from iscope.rollouts import RolloutBatch


def test_a_file_holds_what_the_table_holds(sample_data, tmp_path):
    dump, path = sample_data / "train_async.parquet", tmp_path / "w.parquet"
    spec = "trl/token_mask:clip_min=0.5,clip_max=2"
    memory = iscope.replay(dump, recipe=spec)
    written = iscope.replay(dump, recipe=spec, output=path)
    assert (written.table, written.path, written.loss) == (None, path, memory.loss)
    assert written.to_polars().equals(memory.to_polars())
    schema = pq.read_schema(path)
    assert [str(schema.field(name).type) for name in ("weight", "keep", "coefficient")] == [
        "large_list<element: float>",
        "large_list<element: bool>",
        "large_list<element: float>",
    ]
    assert (schema.metadata[b"iscope.recipe"].decode(), schema.metadata[b"iscope.batch"]) == (memory.recipe, b"all")
    assert pq.ParquetFile(path).num_row_groups == 1
    wide = iscope.replay(dump, recipe=spec, precision="float64").table.schema
    assert str(wide.field("weight").type) == "large_list<item: double>"


def test_one_row_group_for_each_batch(tmp_path):
    logprobs = [[-1.0, -2.0], [-3.0]]
    batches = [RolloutBatch.from_lists(logprobs, logprobs, advantage=[1.0, 2.0]) for _ in range(3)]
    result = iscope.replay(*batches, recipe="none", output=tmp_path / "w.parquet")
    assert pq.ParquetFile(result.path).num_row_groups == 3
    assert result.to_polars()["rollout_id"].to_list() == ["#0", "#1"] * 3


@pytest.mark.parametrize("old", [None, b"precious"])
@pytest.mark.parametrize("failure", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_nothing_is_left_half_written(old, failure, tmp_path, monkeypatch):
    logprobs = [[-1.0, -2.0], [-3.0]]
    batches = [RolloutBatch.from_lists(logprobs, logprobs, advantage=[1.0, 2.0]) for _ in range(3)]
    path, calls = tmp_path / "w.parquet", []
    if old is not None:
        path.write_bytes(old)
    write = pq.ParquetWriter.write_batch

    def fail(self, batch):
        calls.append(batch)
        if len(calls) == 2:
            raise failure
        write(self, batch)

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", fail)
    with pytest.raises((KeyboardInterrupt, iscope.UsageError), match=r"^$|cannot write it: No space left on device\.$"):
        iscope.replay(*batches, recipe="none", output=path)
    assert len(calls) == 2
    assert [file.read_bytes() for file in tmp_path.iterdir()] == ([] if old is None else [old])


def test_where_no_file_can_be_written(tmp_path):
    table = pl.DataFrame({"trainer_logprobs": [[-1.0]], "inference_logprobs": [[-1.5]]})
    table.write_parquet(tmp_path / "a.parquet")
    (tmp_path / "link.parquet").symlink_to(tmp_path / "a.parquet")
    before = (tmp_path / "a.parquet").read_bytes()
    for output, message in (
        (tmp_path, "this is a folder; name a file in it."),
        (os.devnull, "this is a device or a pipe;"),
        (tmp_path / "no" / "w.parquet", "there is no folder"),
        (tmp_path / "a.parquet", "this file is part of the dump that is read; name another one."),
        (tmp_path / "link.parquet", "this file is part of the dump"),
    ):
        with pytest.raises(iscope.UsageError) as caught:
            iscope.replay(tmp_path / "a.parquet", recipe="none", output=output)
        assert str(caught.value).startswith(f"{output}: {message}")
    assert (tmp_path / "a.parquet").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["a.parquet", "link.parquet"]
