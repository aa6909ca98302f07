from __future__ import annotations

import os

import pyarrow.parquet as pq
import pytest

from iscope.dump import open_dump
from iscope.dump.files import expand, hive_values
from iscope.errors import DataError, UsageError


@pytest.fixture
def run(tmp_path, make):
    """A run folder: hive folders of steps, files that count and files that do not."""
    for step in (1, 2, 10):
        folder = tmp_path / "run" / f"step={step}"
        folder.mkdir(parents=True)
        pq.write_table(make([step, 2], seed=step).drop(["rollout_id"]), folder / "b.parquet")
    (tmp_path / "run" / "notes.txt").write_text("not a dump")
    (tmp_path / "run" / "_temporary").mkdir()
    (tmp_path / "run" / "_temporary" / "half.parquet").write_bytes(b"PAR1")
    (tmp_path / "run" / ".hidden.parquet").write_bytes(b"PAR1")
    return tmp_path / "run"


def test_folders_are_searched_and_hive_keys_become_columns(run):
    dump = open_dump([run])
    steps = [step for batch in dump.batches() for step in batch.columns["step"].to_list()]
    assert steps == [1, 1, 2, 2, 10, 10]
    assert "step" in dump.present
    assert [os.path.relpath(file.path, run) for file in dump.files] == [
        "step=1/b.parquet",
        "step=2/b.parquet",
        "step=10/b.parquet",
    ]
    assert all(file.size == os.path.getsize(file.path) and file.rows == 2 for file in dump.files)


@pytest.mark.parametrize("pattern", ["step=*/b.parquet", "**/b.parquet", "step=*", "step=[12]*"])
def test_globs(run, pattern):
    steps = [s for batch in open_dump([str(run / pattern)]).batches() for s in batch.columns["step"].to_list()]
    assert steps == [1, 1, 2, 2, 10, 10]


def test_default_ids_name_file_and_row(run):
    file = run / "step=1" / "b.parquet"
    (batch,) = open_dump([file]).batches()
    assert batch.columns["rollout_id"].to_list() == [f"{file}#0", f"{file}#1"]


def test_a_file_named_twice_is_read_once(run):
    dump = open_dump([run / "step=1" / "b.parquet", run, str(run / "step=*" / "*.parquet")])
    assert len(dump.files) == 3


def test_a_column_of_the_file_wins_over_its_folder(tmp_path, make):
    folder = tmp_path / "step=3"
    folder.mkdir()
    pq.write_table(make([1], step=[4]), folder / "a.parquet")
    (batch,) = open_dump([tmp_path]).batches()
    assert batch.columns["step"].to_list() == [4]


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("a/step=3/b.parquet", {"step": 3}),
        ("env=maths%20hard/lag=-2/b.parquet", {"env": "maths hard", "lag": -2}),
        ("v=007/x=/b=1.parquet", {"v": "007", "x": ""}),
        ("k=__HIVE_DEFAULT_PARTITION__/b.parquet", {"k": None}),
        ("k=a=b/f.parquet", {"k": "a=b"}),
        ("plain/b.parquet", {}),
    ],
)
def test_hive_values(path, values):
    assert hive_values(path) == values


def test_carried_hive_column(tmp_path, make):
    for name in ("a", "7"):
        (tmp_path / f"seed={name}").mkdir()
        pq.write_table(make([1]), tmp_path / f"seed={name}" / "x.parquet")
    (batch,) = open_dump([tmp_path], carry=["seed"]).batches()
    assert batch.columns["seed"].to_list() == ["7", "a"]


def test_missing_path_names_its_neighbour(run):
    with pytest.raises(DataError) as caught:
        expand(run / "step=1" / "b.parqet")
    assert str(caught.value) == f"{run}/step=1/b.parqet: no such file or folder. Did you mean 'b.parquet'?"


@pytest.mark.parametrize("text", ["nowhere/at/all.parquet", "*.parquet"])
def test_nothing_there(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"^\S+: [^\n]+\.$") as caught:
        open_dump([text])
    assert text in str(caught.value)
    assert caught.value.exit_code == 3


def test_folder_without_parquet_files(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(DataError, match="the folder holds no Parquet file"):
        open_dump([tmp_path])


def test_no_dump_at_all():
    with pytest.raises(UsageError, match="No dump was given"):
        open_dump([])


def test_a_source_of_another_kind():
    with pytest.raises(UsageError, match="not a dict"):
        open_dump([{"trainer_logprobs": []}])
