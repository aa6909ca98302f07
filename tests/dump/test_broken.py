from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iscope.dump import open_dump
from iscope.errors import DataError

F = pa.list_(pa.float32())
GOOD = {
    "trainer_logprobs": pa.array([[-1.0], [-1.0, -2.0], [], [-3.0]], F),
    "inference_logprobs": pa.array([[-1.5], [-1.0, -2.5], [], [-3.5]], F),
}
UNEQUAL = pa.array([[-1.0], [-1.0, -2.0], [], [-3.0, -4.0]], F)


def check(error: DataError, *parts: str) -> None:
    text = str(error)
    assert "\n" not in text
    assert text.endswith(".")
    assert error.exit_code == 3
    for part in parts:
        assert part in text


def consume(source, **options) -> None:
    for _ in open_dump([source], **options).batches():
        pass


BROKEN = {
    "missing": ({"inference_logprobs": None}, ["'inference_logprobs'", "inference=NAME"]),
    "misspelt": ({"inference_logprobs": None, "inference_logprob": UNEQUAL}, ["Did you mean 'inference_logprob'?"]),
    "misspelt alias": ({"inference_logprobs": None, "rolout_log_probs": UNEQUAL}, ["Did you mean 'rolout_log_probs'?"]),
    "strings": ({"trainer_logprobs": ["a", "b", "c", "d"]}, ["'trainer_logprobs' is string", "list of float"]),
    "json": ({"trainer_logprobs": ["[-1]"] * 4}, ["'trainer_logprobs' is string"]),
    "scalars": ({"trainer_logprobs": [1.0] * 4}, ["'trainer_logprobs' is double", "not one value per row"]),
    "nested": ({"trainer_logprobs": [[[1.0]]] * 4}, ["'trainer_logprobs' is list<", "must hold float"]),
    "list of strings": ({"inference_logprobs": [["a"]] * 4}, ["'inference_logprobs'", "must hold float"]),
    "list of bools": ({"inference_logprobs": [[True]] * 4}, ["'inference_logprobs'", "must hold float"]),
    "all null": ({"trainer_logprobs": pa.nulls(4)}, ["'trainer_logprobs' is null"]),
    "mask of scalars": ({"loss_mask": [1] * 4}, ["'loss_mask' is int64", "list of bool or int"]),
    "mask of strings": ({"response_mask": [["1"]] * 4}, ["'response_mask' (read as loss_mask)", "--columns mask=NAME"]),
    "advantage of strings": ({"advantage": ["1"] * 4}, ["'advantage' is string"]),
    "nested advantage": ({"advantage": [[[1.0]]] * 4}, ["'advantage' is list<"]),
    "step of lists": ({"step": [[1]] * 4}, ["'step' is list<", "one value for each rollout"]),
    "unequal inference": (
        {"inference_logprobs": UNEQUAL},
        ["row 3", "'inference_logprobs' has 2", "'trainer_logprobs' 1"],
    ),
    "unequal current": ({"current_logprobs": UNEQUAL}, ["row 3", "'current_logprobs' has 2"]),
    "unequal mask": ({"loss_mask": [[1], [1], [], [1]]}, ["row 1", "'loss_mask' has 1", "'trainer_logprobs' 2"]),
    "unequal advantage": ({"advantage": [[1.0], [1.0, 1.0], [1.0], [1.0]]}, ["row 2", "'advantage' has 1"]),
}


@pytest.mark.parametrize("store", ["parquet", "memory"])
@pytest.mark.parametrize(("changes", "parts"), BROKEN.values(), ids=BROKEN)
def test_unusable_columns(tmp_path, store, changes, parts):
    table = pa.table({name: column for name, column in (GOOD | changes).items() if column is not None})
    source, name = table, "frame"
    if store == "parquet":
        source = tmp_path / "dump.parquet"
        name = str(source)
        pq.write_table(table, source)
    with pytest.raises(DataError) as caught:
        consume(source)
    check(caught.value, name, *parts)


@pytest.mark.parametrize("row", [0, 7, 39])
def test_unequal_lengths_name_the_row_in_the_file(tmp_path, make, row):
    table = make([5] * 40)
    rows = table.column("loss_mask").to_pylist()
    rows[row] = rows[row][:-1]
    pq.write_table(make([5] * 40), tmp_path / "1.parquet")
    path = tmp_path / "2.parquet"
    pq.write_table(table.set_column(2, "loss_mask", pa.array(rows, pa.list_(pa.int32()))), path, row_group_size=3)
    with pytest.raises(DataError) as caught:
        consume(tmp_path, batch_tokens=20)
    check(caught.value, f"{path}: row {row}: ", "'loss_mask' has 4 tokens and 'trainer_logprobs' 5")


def damaged(path, how: str) -> None:
    data = path.read_bytes()
    middle = len(data) // 2
    contents = {
        "empty file": b"",
        "text": b"trainer_logprobs,inference_logprobs\n1,2\n",
        "json lines": b'{"trainer_logprobs": [1.0]}\n' * 10,
        "truncated": data[:middle],
        "no footer": data[:-8],
        "hole": data[:4] + b"\xff" * (middle - 4) + data[middle:],
    }
    path.write_bytes(contents[how])


@pytest.mark.parametrize("how", ["empty file", "text", "json lines", "truncated", "no footer", "hole"])
def test_unreadable_files(tmp_path, make, how):
    path = tmp_path / "dump.parquet"
    pq.write_table(make([50] * 40), path, use_dictionary=False)
    damaged(path, how)
    with pytest.raises(DataError) as caught:
        consume(path)
    check(caught.value, f"{path}: cannot be read as Parquet (")


def test_a_file_removed_between_opening_and_reading(tmp_path, make):
    path = tmp_path / "dump.parquet"
    pq.write_table(make([5]), path)
    dump = open_dump([path])
    path.unlink()
    with pytest.raises(DataError) as caught:
        list(dump.batches())
    check(caught.value, str(path))


def test_a_file_replaced_between_opening_and_reading(tmp_path, make):
    path = tmp_path / "dump.parquet"
    pq.write_table(make([5, 3]), path)
    for other in (make([5]), make([5, 3]).drop(["loss_mask"])):
        pq.write_table(make([5, 3]), path)
        dump = open_dump([path])
        pq.write_table(other, path)
        with pytest.raises(DataError) as caught:
            list(dump.batches())
        check(caught.value, f"{path}: the file was replaced")


@pytest.mark.parametrize("files", [1, 3])
def test_an_empty_dump(tmp_path, make, files):
    for index in range(files):
        pq.write_table(make([]), tmp_path / f"{index}.parquet")
    with pytest.raises(DataError) as caught:
        open_dump([tmp_path])
    check(caught.value, "0.parquet", "the dump is empty")


def test_an_empty_file_among_others_is_no_error(tmp_path, make):
    pq.write_table(pa.table({"unrelated": pa.array([], pa.int64())}), tmp_path / "0.parquet")
    pq.write_table(make([3]), tmp_path / "1.parquet")
    assert [batch.tokens for batch in open_dump([tmp_path]).batches()] == [3]


@pytest.mark.parametrize(
    ("column", "values"),
    [("loss_mask", [[1]]), ("advantage", [1.0]), ("current_logprobs", [[-1.0]]), ("ref_logprobs", [[-1.0]])],
)
def test_a_token_column_that_some_files_lack(tmp_path, column, values):
    pq.write_table(
        pa.table({"trainer_logprobs": [[-1.0]], "inference_logprobs": [[-1.0]], column: values}), tmp_path / "1.parquet"
    )
    pq.write_table(pa.table({"trainer_logprobs": [[-1.0]], "inference_logprobs": [[-1.0]]}), tmp_path / "2.parquet")
    with pytest.raises(DataError) as caught:
        open_dump([tmp_path])
    check(caught.value, "2.parquet: there is no " + column, "1.parquet has one", f"--columns {column}=")
    assert len(list(open_dump([tmp_path], columns={column: ""}).batches())) == 1


def test_a_list_here_and_a_value_there(tmp_path):
    for name, advantage in (("1", [1.0]), ("2", [[1.0]])):
        table = {"trainer_logprobs": [[-1.0]], "inference_logprobs": [[-1.0]], "advantage": advantage}
        pq.write_table(pa.table(table), tmp_path / f"{name}.parquet")
    with pytest.raises(DataError) as caught:
        open_dump([tmp_path])
    check(caught.value, "2.parquet: advantage is list<", "1.parquet it is double")


def test_doubled_column_names():
    table = pa.table([GOOD["trainer_logprobs"]] * 2, names=["trainer_logprobs", "trainer_logprobs"])
    with pytest.raises(DataError) as caught:
        open_dump([table])
    check(caught.value, "frame: there are two columns named 'trainer_logprobs'")


BAD_ROWS = {
    "null_trainer_logprobs": {"trainer_logprobs": [[-1.0], None, [], [-3.0]]},
    "null_inference_logprobs": {"inference_logprobs": [[-1.0], None, [], [-3.0]]},
    "null_current_logprobs": {"current_logprobs": [[-1.0], None, [], [-3.0]]},
    "null_ref_logprobs": {"ref_logprobs": [[-1.0], None, [], [-3.0]]},
    "null_loss_mask": {"loss_mask": [[1], None, [], [0]]},
    "null_loss_mask (one value)": {"loss_mask": [[1], [1, None], [], [0]]},
    "null_loss_mask (bool)": {"loss_mask": [[True], [None, False], [], [False]]},
    "null_loss_mask (NaN)": {"loss_mask": [[1.0], [1.0, float("nan")], [], [0.0]]},
    "null_advantage": {"advantage": [1.0, None, 2.0, 3.0]},
    "null_advantage (int)": {"advantage": [1, None, 2, 3]},
    "null_advantage (list)": {"advantage": [[1.0], None, [], [3.0]]},
    "null_advantage (one value)": {"advantage": [[1.0], [1.0, None], [], [3.0]]},
    "null_advantage (loss token)": {"advantage": [[1.0], [None, 1.0], [], [None]], "loss_mask": [[1], [1, 0], [], [0]]},
    "nonfinite_advantage": {"advantage": [1.0, float("nan"), 2.0, 3.0]},
    "nonfinite_advantage (list)": {"advantage": [[1.0], [1.0, float("inf")], [], [3.0]]},
}


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(("reason", "columns"), BAD_ROWS.items(), ids=BAD_ROWS)
def test_bad_rows_are_left_out_and_counted(reason, columns, first):
    table = pa.table(GOOD | columns).slice(first)
    dump = open_dump([table])
    (batch,) = dump.batches()
    kept = [row for row in (0, 2, 3) if row >= first]
    assert batch.columns["rollout_id"].to_list() == [f"frame#{row - first}" for row in kept]
    assert batch.trainer_logprobs.tolist() == [-1.0, -3.0][first:]
    assert dump.tally.excluded == {reason.split(" ")[0]: 1}
    assert dump.tally.rollouts_read == 4 - first


@pytest.mark.parametrize(("reason", "columns"), BAD_ROWS.items(), ids=BAD_ROWS)
def test_strict_makes_them_errors(tmp_path, reason, columns):
    pq.write_table(pa.table(GOOD | columns), tmp_path / "a.parquet")
    with pytest.raises(DataError) as caught:
        consume(tmp_path, strict=True)
    column = reason.split(" ")[0].partition("_")[2]
    check(caught.value, f"{tmp_path / 'a.parquet'}: row 1: {column} ", "--strict")


def test_a_row_is_counted_once():
    table = pa.table(GOOD | {"trainer_logprobs": [None] * 4, "inference_logprobs": [None] * 4})
    table = table.set_column(0, "trainer_logprobs", pa.array([None] * 4, F))
    table = table.set_column(1, "inference_logprobs", pa.array([None, None, None, [-1.0]], F))
    dump = open_dump([table])
    assert [len(batch) for batch in dump.batches()] == [0]
    assert dump.tally.excluded == {"null_trainer_logprobs": 4}


def test_no_column_is_proposed_for_what_it_is_not():
    with pytest.raises(DataError) as caught:
        open_dump([pa.table({"trainer_logprobs": [[-1.0]], "ref_logprobs": [[-1.0]]})])
    check(caught.value, "there is no column 'inference_logprobs'")
    assert "Did you mean" not in str(caught.value)
