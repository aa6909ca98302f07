"""The Hugging Face Hub and Google Cloud Storage, which tests do not reach: others stand in."""

from __future__ import annotations

import fsspec
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import iscope
from iscope.dump import open_dump
from iscope.dump.remote import arrow, spec, stores
from iscope.dump.remote.urls import located
from iscope.errors import DataError, UsageError
from tests.dump.remote.servers import proxy, web_server
from tests.dump.remote.test_s3 import without_provenance


@pytest.fixture
def hub(monkeypatch, make):
    files = fsspec.filesystem("memory", skip_instance_cache=True)
    files.store.clear()
    for step in (1, 2, 10):
        with files.open(f"/datasets/me/run/step={step}/a.parquet", "wb") as out:
            pq.write_table(make([step, 2], seed=step), out)
    with files.open("/datasets/me/run/.hidden/a.parquet", "wb") as out:
        out.write(b"PAR1")
    monkeypatch.setattr(spec, "hub", lambda place: spec.SpecStore(files, cache_type="none"))
    stores.forget()
    yield "hf://datasets/me/run"
    files.store.clear()


@pytest.mark.parametrize("pattern", ["", "/", "/step=*/a.parquet", "/**/a.parquet", "/step=*", "/step=?*/*"])
def test_folders_and_globs(hub, pattern):
    dump = open_dump([hub + pattern])
    assert [file.path for file in dump.files] == [f"{hub}/step={step}/a.parquet" for step in (1, 2, 10)]
    assert sum(len(batch) for batch in dump.batches()) == 6


def test_nothing_there(hub):
    with pytest.raises(DataError) as caught:
        open_dump([f"{hub}/step=1/b.parquet"])
    assert str(caught.value) == f"{hub}/step=1/b.parquet: no such file or folder. Did you mean 'a.parquet'?"


@pytest.fixture
def like_the_hub(monkeypatch, sample_data):
    """The Hub's own client, with a server on this machine in the Hub's place."""
    from huggingface_hub import HfFileSystem

    with web_server(sample_data, hub=True) as (host, port), proxy(host, port) as between:
        files = HfFileSystem(endpoint=f"http://127.0.0.1:{between.port}", token=False, skip_instance_cache=True)
        monkeypatch.setattr(spec, "hub", lambda place: spec.SpecStore(files, cache_type="none"))
        stores.forget()
        yield between


def test_a_dataset_of_the_hub(like_the_hub, sample_data):
    sides = {"trainer": "base/trainer_*.parquet", "vllm": "base/vllm.parquet"}
    report = iscope.analyze(**{side: f"hf://datasets/me/run/{path}" for side, path in sides.items()}, recipes=["none"])
    here = iscope.analyze(**{side: sample_data / path for side, path in sides.items()}, recipes=["none"])
    assert without_provenance(report) == without_provenance(here)
    read = [request for request in like_the_hub.gets() if "/resolve/" in request.path]
    assert len(read) == 8  # of each side the footer, the keys, the logprobs; then token ids, by the keys of one side
    assert len(open_dump(["hf://datasets/me/run/**/train_async.parquet"]).files) == 1


def test_a_dataset_that_is_cut(like_the_hub):
    like_the_hub.cut_after, like_the_hub.cuts = 50_000, 2
    dump = open_dump(["hf://datasets/me/run/train_async.parquet"])
    assert sum(len(batch) for batch in dump.batches()) == 416


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("run/train_asinc.parquet", "no such file or folder. Did you mean 'train_async.parquet'?"),
        ("ran/train_async.parquet", "no such file or folder."),
        ("run/*.pq", "no file matches this pattern."),
    ],
)
def test_nothing_at_the_hub(like_the_hub, said, path, message):
    with pytest.raises(DataError) as caught:
        open_dump([f"hf://datasets/me/{path}"])
    assert said(caught.value) == f"hf://datasets/me/{path}: {message}"


def test_the_store_of_the_hub():
    from huggingface_hub import HfFileSystem

    store = spec.hub(located("hf://datasets/me/run@main/a.parquet"))
    assert isinstance(store._filesystem, HfFileSystem)
    assert store.can_list


def test_folders_that_a_store_does_not_list(tmp_path):
    for name in ("a/1.parquet", "a/b/2.parquet", "c/d/3.parquet", "4.parquet"):
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).touch()
    files = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    stores_ = [arrow.ArrowStore(files, lists_folders=lists) for lists in (True, False)]
    found = [
        sorted((entry.path, entry.is_folder) for entry in store.entries("run/", recursive=False)) for store in stores_
    ]
    assert found[0] == found[1] == [("run/4.parquet", False), ("run/a", True), ("run/c", True)]


def test_the_store_of_google():
    store = arrow.gs(located("gs://bucket/run?anonymous=true"))
    assert isinstance(store._filesystem, pyarrow.fs.GcsFileSystem)
    with pytest.raises(UsageError, match="gs:// takes no user"):
        arrow.gs(located("gs://me:pw@bucket/run?anonymous=true"))
    with pytest.raises(UsageError, match="there is no setting 'region'"):
        arrow.gs(located("gs://bucket/run?region=x"))
