from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iscope.dump import open_dump

LENGTHS = [0, 7, 1, 0, 300, 12, 12, 90, 3, 0, 41, 8, 0]


def as_written(table: pa.Table) -> list[list[float]]:
    return table.column("trainer_logprobs").to_pylist()


@pytest.mark.parametrize("row_group_size", [1, 2, 5, 1000])
@pytest.mark.parametrize("batch_tokens", [1, 13, 64, 100_000])
def test_batch_and_row_group_size_change_nothing(tmp_path, make, read, row_group_size, batch_tokens):
    table = make(LENGTHS, step=list(range(len(LENGTHS))))
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=row_group_size)
    dump = open_dump([tmp_path / "a.parquet"], batch_tokens=batch_tokens)
    found = read(dump)
    assert found.trainer == as_written(table)
    assert found.inference == table.column("inference_logprobs").to_pylist()
    assert found.mask == [[bool(x) for x in row] for row in table.column("loss_mask").to_pylist()]
    assert found.ids == table.column("rollout_id").to_pylist()
    batches = list(dump.batches())
    assert all(batch.tokens <= batch_tokens or len(batch) == 1 for batch in batches)
    assert [step for batch in batches for step in batch.columns["step"].to_list()] == list(range(len(LENGTHS)))
    assert dump.tally.rollouts_read == len(LENGTHS)


def test_tiny_row_groups_are_joined(tmp_path, make):
    pq.write_table(make([10] * 400), tmp_path / "a.parquet", row_group_size=1)
    sizes = [batch.tokens for batch in open_dump([tmp_path / "a.parquet"], batch_tokens=1000).batches()]
    assert sum(sizes) == 4000
    assert len(sizes) <= 6


def test_tiny_files_are_joined(tmp_path, make):
    for index in range(30):
        pq.write_table(make([20], seed=index), tmp_path / f"{index}.parquet")
    assert [batch.tokens for batch in open_dump([tmp_path], batch_tokens=200).batches()] == [200, 200, 200]


def test_tiny_rollouts_fill_a_batch_by_their_number(tmp_path, make):
    for index in range(10):
        pq.write_table(make([2] * 10, seed=index), tmp_path / f"{index}.parquet")
    assert [len(batch) for batch in open_dump([tmp_path], batch_tokens=16 * 40).batches()] == [40, 40, 20]


def test_one_huge_row_group_is_read_in_pieces(tmp_path, make, monkeypatch):
    pq.write_table(make([100] * 3000), tmp_path / "a.parquet", row_group_size=3000)
    asked = []
    iter_batches = pq.ParquetFile.iter_batches

    def spy(self, batch_size, **options):
        asked.append(batch_size)
        return iter_batches(self, batch_size, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", spy)
    sizes = [batch.tokens for batch in open_dump([tmp_path / "a.parquet"], batch_tokens=10_000).batches()]
    assert sum(sizes) == 300_000
    assert max(sizes) <= 10_000
    assert asked
    assert all(rows * 100 <= 10_000 for rows in asked)


def test_row_groups_of_other_lengths_are_read_by_their_own_size(tmp_path, make, monkeypatch):
    pq.write_table(make([10] * 1000 + [1000] * 1000), tmp_path / "a.parquet", row_group_size=1000)
    asked = []
    iter_batches = pq.ParquetFile.iter_batches

    def spy(self, batch_size, **options):
        asked.append((batch_size, options["row_groups"]))
        return iter_batches(self, batch_size, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", spy)
    batches = list(open_dump([tmp_path / "a.parquet"], batch_tokens=10_000).batches())
    assert sum(batch.tokens for batch in batches) == 1_010_000
    (short, first), (long, second) = asked
    assert (first, second) == ([0], [1])
    assert short >= 500
    assert long <= 10


@pytest.mark.parametrize("cuts", [[], [1], [4, 5], list(range(1, len(LENGTHS)))], ids=str)
def test_splitting_files_changes_nothing(tmp_path, make, read, cuts):
    table = make(LENGTHS)
    edges = [0, *cuts, len(LENGTHS)]
    for index, (first, last) in enumerate(pairwise(edges)):
        pq.write_table(table.slice(first, last - first), tmp_path / f"part_{index}.parquet")
    dump = open_dump([tmp_path], batch_tokens=100)
    found = read(dump)
    assert found.trainer == as_written(table)
    assert found.ids == table.column("rollout_id").to_pylist()
    assert [file.rows for file in dump.files] == list(np.diff(edges))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=30),
    row_group_size=st.integers(1, 30),
    batch_tokens=st.integers(1, 200),
)
def test_any_layout_gives_every_rollout_once(tmp_path, make, read, lengths, row_group_size, batch_tokens):
    table = make(lengths)
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=row_group_size)
    dump = open_dump([tmp_path / "a.parquet"], batch_tokens=batch_tokens)
    assert read(dump).trainer == as_written(table)
    assert all(batch.tokens <= batch_tokens or len(batch) == 1 for batch in dump.batches())


def test_files_may_differ_in_types_and_names(tmp_path, read):
    pq.write_table(
        pa.table(
            {
                "trainer_logprobs": pa.array([[-1.0]], pa.list_(pa.float32())),
                "inference_logprobs": pa.array([[-1.5]], pa.list_(pa.float32())),
                "loss_mask": pa.array([[True]]),
                "step": pa.array([1], pa.int32()),
                "group_id": pa.array([7]),
            }
        ),
        tmp_path / "1.parquet",
    )
    pq.write_table(
        pa.table(
            {
                "old_log_probs": pa.array([[-2.0, -3.0]], pa.large_list(pa.float64())),
                "rollout_log_probs": pa.array([[-2.5, -3.5]], pa.list_(pa.float32())),
                "response_mask": pa.array([[1, 0]]),
                "step": pa.array([2], pa.int64()),
                "group_id": pa.array(["x"]),
                "env": pa.array(["maths"]),
            }
        ),
        tmp_path / "2.parquet",
    )
    dump = open_dump([tmp_path])
    (batch,) = dump.batches()
    assert read(dump).trainer == [[-1.0], [-2.0, -3.0]]
    assert batch.loss_mask.tolist() == [True, True, False]
    assert batch.columns.drop("rollout_id").to_dict(as_series=False) == {
        "group_id": ["7", "x"],
        "step": [1, 2],
        "env": [None, "maths"],
    }


def test_a_pass_can_be_repeated_and_counts_afresh(tmp_path, make):
    pq.write_table(make(LENGTHS), tmp_path / "a.parquet")
    dump = open_dump([tmp_path / "a.parquet"], batch_tokens=50)
    assert [b.tokens for b in dump.batches()] == [b.tokens for b in dump.batches()]
    assert dump.tally.rollouts_read == len(LENGTHS)


def test_only_needed_columns_are_decoded(tmp_path, make, monkeypatch):
    ids = pa.array([[1], [2, 3]])
    pq.write_table(make([1, 2], token_ids=ids, text=["a", "b"], note=["c", "d"]), tmp_path / "a.parquet")
    asked = []
    iter_batches = pq.ParquetFile.iter_batches

    def spy(self, batch_size, **options):
        asked.extend(options["columns"])
        return iter_batches(self, batch_size, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", spy)
    (batch,) = open_dump([tmp_path / "a.parquet"], carry=["note"]).batches()
    assert sorted(asked) == ["inference_logprobs", "loss_mask", "note", "rollout_id", "trainer_logprobs"]
    assert batch.columns["note"].to_list() == ["c", "d"]
