from __future__ import annotations

import math

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from iscope.dump import open_dump
from iscope.rollouts import RolloutBatch

LISTS = [[-0.5, -1.25, 0.0], [], [-2.0], [-0.125] * 5]
TOKENS = [value for row in LISTS for value in row]
OFFSETS = [0, 3, 3, 4, 9]


def lists(kind: pa.DataType, rows: list) -> pa.Array:
    return pa.array(rows, kind)


def only(dump) -> RolloutBatch:
    (batch,) = dump.batches()
    return batch


def both(array: pa.Array, **more: pa.Array) -> pa.Table:
    return pa.table({"trainer_logprobs": array, "inference_logprobs": array, **more})


@pytest.mark.parametrize("store", ["parquet", "memory"])
@pytest.mark.parametrize("list_of", [pa.list_, pa.large_list])
@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_every_float_type_becomes_float32(tmp_path, store, list_of, kind):
    array = pa.array([[np.float16(x) for x in row] if kind == pa.float16() else row for row in LISTS], list_of(kind))
    source = both(array)
    if store == "parquet":
        pq.write_table(source, tmp_path / "a.parquet")
        source = tmp_path / "a.parquet"
    batch = only(open_dump([source]))
    assert batch.trainer_logprobs.dtype == batch.inference_logprobs.dtype == torch.float32
    assert batch.trainer_logprobs.tolist() == batch.inference_logprobs.tolist() == TOKENS
    assert batch.offsets.dtype == torch.int64
    assert batch.offsets.tolist() == OFFSETS
    assert batch.nulls == {}


@pytest.mark.parametrize("sliced", [False, True])
def test_fixed_size_lists(sliced):
    rows = [[-9.0, -9.0], [-1.0, -2.0], [-3.0, -4.0], [-9.0, -9.0]]
    table = both(pa.array(rows, pa.list_(pa.float32(), 2)))
    batch = only(open_dump([table.slice(1, 2) if sliced else table]))
    expected = rows[1:3] if sliced else rows
    assert batch.trainer_logprobs.tolist() == [x for row in expected for x in row]
    assert batch.offsets.tolist() == list(range(0, 2 * len(expected) + 1, 2))


def test_fixed_size_lists_with_a_null_row():
    table = both(pa.array([[-1.0, -2.0], None, [-3.0, -4.0]], pa.list_(pa.float32(), 2)))
    dump = open_dump([table])
    assert only(dump).trainer_logprobs.tolist() == [-1.0, -2.0, -3.0, -4.0]
    assert dump.tally.excluded == {"null_trainer_logprobs": 1}


def test_float64_is_kept_on_request():
    value = -0.1234567890123456
    table = both(pa.array([[value]], pa.list_(pa.float64())))
    assert only(open_dump([table], precision="float64")).trainer_logprobs.tolist() == [value]
    rounded = only(open_dump([table])).trainer_logprobs
    assert rounded.dtype == torch.float32
    assert rounded.item() == float(np.float32(value)) != value


def test_integers_are_accepted_as_logprobs():
    assert only(open_dump([both(pa.array([[0, -1]], pa.list_(pa.int64())))])).trainer_logprobs.tolist() == [0.0, -1.0]


@pytest.mark.parametrize("rows", [slice(1, 4), slice(3, 6), slice(0, 0)], ids=str)
def test_slices_with_an_offset(make, rows):
    table = make([3, 0, 5, 2, 70, 1])
    dump = open_dump([table.slice(rows.start, rows.stop - rows.start), make([4], seed=9)])
    whole = table.to_pylist()[rows] + make([4], seed=9).to_pylist()
    batch = only(dump)
    assert batch.trainer_logprobs.tolist() == [x for row in whole for x in row["trainer_logprobs"]]
    assert batch.loss_mask.tolist() == [bool(x) for row in whole for x in row["loss_mask"]]


@pytest.mark.parametrize(
    "kind",
    [pa.bool_(), pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.float32()],
    ids=str,
)
@pytest.mark.parametrize("first", [0, 1, 2])
def test_every_mask_type(kind, first):
    rows = [[1, 0, 1], [], [0] * 9 + [1], [1, 1]]
    lengths = [[-1.0] * len(row) for row in rows]
    values = [[bool(x) for x in row] if kind == pa.bool_() else row for row in rows]
    table = both(pa.array(lengths, pa.list_(pa.float32())), loss_mask=pa.array(values, pa.list_(kind)))
    mask = only(open_dump([table.slice(first)])).loss_mask
    assert mask.dtype == torch.bool
    assert mask.tolist() == [bool(x) for row in rows[first:] for x in row]


def test_any_non_zero_mask_value_trains():
    table = both(pa.array([[-1.0] * 3]), loss_mask=pa.array([[2, 0, -1]]))
    assert only(open_dump([table])).loss_mask.tolist() == [True, False, True]


def test_null_values_become_nan_and_are_marked():
    table = pa.table(
        {
            "trainer_logprobs": [[-9.0], [-1.0, None, float("nan")], [None]],
            "inference_logprobs": [[-9.0], [-1.0, -2.0, -3.0], [-4.0]],
        }
    )
    batch = only(open_dump([table.slice(1)]))
    values = batch.trainer_logprobs.tolist()
    assert values[0] == -1.0
    assert all(math.isnan(x) for x in values[1:])
    assert set(batch.nulls) == {"trainer_logprobs"}
    assert batch.nulls["trainer_logprobs"].tolist() == [False, True, False, True]


def test_lists_that_hold_only_nulls():
    table = pa.table(
        {
            "trainer_logprobs": pa.array([[None, None], []], pa.list_(pa.null())),
            "inference_logprobs": pa.array([[-1.0, -2.0], []], pa.list_(pa.float32())),
        }
    )
    batch = only(open_dump([table]))
    assert batch.nulls["trainer_logprobs"].tolist() == [True, True]
    assert batch.trainer_logprobs.isnan().all()


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), -9999.0, 0.3])
def test_unusable_values_are_passed_on_as_they_are(value):
    assert only(open_dump([both(pa.array([[value, -1.0]], pa.list_(pa.float32())))])).trainer_logprobs.tolist() == [
        pytest.approx(value),
        -1.0,
    ]


def test_a_float64_beyond_float32_becomes_infinite_without_a_warning():
    assert only(open_dump([both(pa.array([[-1e300]]))])).trainer_logprobs.tolist() == [-math.inf]


def test_scalar_advantage():
    table = both(pa.array([[-1.0], [-2.0, -3.0]]), advantage=pa.array([0.1, -2.0], pa.float32()))
    batch = only(open_dump([table]))
    assert batch.advantage.dtype == torch.float64
    assert batch.advantage.tolist() == [np.float32(0.1), -2.0]
    assert not batch.advantage_per_token


def test_list_advantage_is_per_token():
    table = both(pa.array([[-1.0], [-2.0, -3.0]]), advantage=[[0.5], [1.0, None]], loss_mask=[[1], [1, 0]])
    batch = only(open_dump([table]))
    assert batch.advantage_per_token
    assert batch.advantage.tolist()[:2] == [0.5, 1.0]
    assert math.isnan(batch.advantage[2])


def test_polars_frames_are_read_like_files():
    frame = pl.DataFrame(
        {
            "trainer_logprobs": pl.Series([[-1.0, -2.0], []], dtype=pl.List(pl.Float32)),
            "inference_logprobs": pl.Series([[-1.5, -2.5], []], dtype=pl.List(pl.Float64)),
            "loss_mask": [[True, False], []],
            "group_id": pl.Series(["a", "b"], dtype=pl.Categorical),
            "anything": pl.Series([object(), object()], dtype=pl.Object),
        }
    )
    batch = only(open_dump([frame]))
    assert batch.inference_logprobs.tolist() == [-1.5, -2.5]
    assert batch.loss_mask.tolist() == [True, False]
    assert batch.columns.to_dict(as_series=False) == {"rollout_id": ["frame#0", "frame#1"], "group_id": ["a", "b"]}


def test_tensors_outlive_the_dump(tmp_path, make):
    pq.write_table(make([1000] * 50), tmp_path / "a.parquet")
    kept = [batch.trainer_logprobs for batch in open_dump([tmp_path / "a.parquet"], batch_tokens=5000).batches()]
    expected = pq.read_table(tmp_path / "a.parquet").column("trainer_logprobs").combine_chunks().values.to_numpy()
    assert np.array_equal(torch.cat(kept).numpy(), expected)


def test_batches_in_memory_pass_through():
    batch = RolloutBatch.from_lists([[-1.0], [-2.0, -3.0]], [[-1.0], [-2.0, -3.5]], [[1], [0, 1]], advantage=[1.0, 2.0])
    dump = open_dump([batch], precision="float64")
    found = only(dump)
    assert found.trainer_logprobs.dtype == torch.float64
    assert found.inference_logprobs.tolist() == [-1.0, -2.0, -3.5]
    assert dump.present == {"trainer_logprobs", "inference_logprobs", "loss_mask", "advantage", "rollout_id"}
    assert dump.assumptions == []
    assert dump.tally.rollouts_read == 2
