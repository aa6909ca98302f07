from __future__ import annotations

import os

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import iscope
from iscope.dump import open_dump
from iscope.errors import DataError, UsageError


def without_provenance(report):
    return {name: part for name, part in report.to_dict().items() if name != "provenance"}


def test_a_file_gives_the_report_of_its_local_copy(bucket, sample_data):
    local = sample_data / "train_async.parquet"
    url = bucket.put("run/train_async.parquet", local.read_bytes())
    remote, here = iscope.analyze(url), iscope.analyze(local)
    assert without_provenance(remote) == without_provenance(here)
    assert remote.provenance["files"] == [{"path": url, "bytes": os.path.getsize(local), "rows": 416}]


@pytest.fixture
def run(bucket, make):
    """A run with hive folders of steps, files that count and files that do not."""
    for step in (1, 2, 10):
        bucket.put(f"run/step={step}/b.parquet", make([step, 2], seed=step).drop(["rollout_id"]))
    bucket.put("run/notes.txt", b"not a dump")
    bucket.put("run/_temporary/half.parquet", b"PAR1")
    bucket.put("run/.hidden.parquet", b"PAR1")
    return bucket.url("run")


@pytest.mark.parametrize(
    "pattern", ["", "/", "/step=*/b.parquet", "/**/b.parquet", "/step=*", "/step=[12]*", "/step=?*", "/s*/*.parquet"]
)
def test_folders_and_globs(run, pattern):
    dump = open_dump([run + pattern])
    steps = [step for batch in dump.batches() for step in batch.columns["step"].to_list()]
    assert steps == [1, 1, 2, 2, 10, 10]
    assert [file.path for file in dump.files] == [f"{run}/step={step}/b.parquet" for step in (1, 2, 10)]
    assert all(file.size > 0 for file in dump.files)


def test_globs_match_what_local_ones_match(bucket, tmp_path, monkeypatch):
    names = ["a1.parquet", "a2.parquet", "b/a1.parquet", "b/c/a[1].parquet", "b/.h/a1.parquet", ".a.parquet", "b/ab.pq"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"PAR1")
        bucket.put(name, b"PAR1")
    from iscope.dump.files import expand

    def found(base, pattern):
        try:
            return [os.path.relpath(name, base) for name in expand(f"{base}/{pattern}")]
        except DataError as error:
            return str(error).removeprefix(f"{base}/")

    root = bucket.url("").rstrip("/")
    for pattern in ("*", "a?.parquet", "a[!2].parquet", "**", "**/a*", "b/*", "b/**", "*/a1.parquet", "b/**/a*", "x*"):
        assert found(root, pattern) == found(str(tmp_path), pattern), pattern


def test_hidden_files_are_asked_for_by_name(run):
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        open_dump([f"{run}/.hidden.parquet"])


def test_two_sides(bucket, sample_data):
    folder = sample_data / "base"
    local = {"trainer": folder / "trainer_fp32_lag0.parquet", "vllm": folder / "vllm.parquet"}
    remote = {side: bucket.put(f"base/{path.name}", path.read_bytes()) for side, path in local.items()}
    remote, here = (iscope.analyze(**sides, recipes=["trl/token_mask"]) for sides in (remote, local))
    assert without_provenance(remote) == without_provenance(here)


def wide(rows: int = 2000, tokens: int = 128) -> pa.Table:
    """A dump whose columns are not needed but for two, in row groups of 500 rows with a step each."""
    rng = np.random.default_rng(0)
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * tokens)
    lists = {
        name: pa.ListArray.from_arrays(offsets, pa.array(-rng.random(rows * tokens, dtype=np.float32)))
        for name in ("trainer_logprobs", "inference_logprobs")
    }
    others = {
        name: pa.ListArray.from_arrays(offsets, pa.array(rng.random(rows * tokens))) for name in ("entropy", "values")
    }
    steps = np.arange(rows) // 500
    return pa.table({"entropy": others["entropy"], **lists, "values": others["values"], "step": steps})


def test_only_the_bytes_that_are_needed_are_read(bucket):
    url = bucket.put("wide.parquet", wide(), row_group_size=500, compression="none", use_dictionary=False)
    size = bucket.files.get_file_info(url.removeprefix("s3://")).size
    bucket.between.requests.clear()
    report = iscope.analyze(url, recipes=["none"])
    read = sum(request.stop - request.start for request in bucket.between.gets())
    logprobs = 2 * 2000 * 128 * 4
    assert report.coverage.rollouts_read == 2000
    assert logprobs <= read <= 1.15 * logprobs + (64 << 10) < size / 2
    bucket.between.requests.clear()
    report = iscope.analyze(url, recipes=["none"], where="step = 2")
    fewer = sum(request.stop - request.start for request in bucket.between.gets())
    assert report.coverage.rollouts_read == 500
    assert fewer <= 1.15 * logprobs / 4
    assert len(bucket.between.gets()) <= 8


def test_the_footers_of_a_folder_are_read_once_and_many_at_a_time(bucket, make):
    for step in range(12):
        bucket.put(f"many/{step}.parquet", make([3, 4], seed=step))
    bucket.between.requests.clear()
    open_dump([bucket.url("many")], where="rollout_id = 'r1'")
    assert len([request for request in bucket.between.gets()]) == 12


def test_convert_replay_inspect_and_compare(bucket, sample_data, tmp_path):
    local = sample_data / "train_async.parquet"
    url = bucket.put("train_async.parquet", local.read_bytes())
    for source, name in ((url, "remote"), (local, "here")):
        iscope.convert(source, output=tmp_path / f"{name}.parquet")
    assert pq.read_table(tmp_path / "remote.parquet").equals(pq.read_table(tmp_path / "here.parquet"))
    tables = [iscope.replay(source, recipe="trl/token_mask").table for source in (url, local)]
    assert pl.DataFrame(tables[0]).equals(pl.DataFrame(tables[1]))
    assert iscope.inspect(url).shape == iscope.inspect(local).shape
    held = [iscope.compare(source, recipes=["trl/token_mask"], against=source) for source in (url, local)]
    assert without_provenance(held[0]) == without_provenance(held[1])


def test_files_of_frameworks(bucket, tmp_path):
    lines = '{"trainer_logprobs": [-1.0, -2.0], "inference_logprobs": [-1.5, -2.0], "rollout_id": "a"}\n' * 3
    url = bucket.put("run/steps.jsonl", lines.encode())
    dump = open_dump([bucket.url("run")])
    assert [file.path for file in dump.files] == [url]
    assert sum(batch.tokens for batch in dump.batches()) == 6
    import torch

    torch.save({"x": torch.zeros(3)}, tmp_path / "a.pt")
    broken = bucket.put("a.pt", (tmp_path / "a.pt").read_bytes())
    with pytest.raises(DataError, match=r"a\.pt: it is of no format that iscope knows; it holds: x\."):
        open_dump([broken])


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("run/step=1/b.parqet", "{url}: no such file or folder. Did you mean 'b.parquet'?"),
        ("runn", "{url}: no such file or folder. Did you mean 'run'?"),
        ("run/*.parqet", "{url}: no file matches this pattern."),
        ("run/step=1/b.txt/*", "{url}: no file matches this pattern."),
        ("my-bucket/*/b.parquet", "{url}: no file matches this pattern."),
        ("my-bucket/**/b.parquet", "{url}: no file matches this pattern."),
    ],
)
def test_nothing_there(bucket, run, said, key, message):
    with pytest.raises(DataError) as caught:
        open_dump([bucket.url(key)])
    assert said(caught.value) == message.format(url=bucket.url(key))


@pytest.mark.parametrize("path", ["s3://no-such-bucket/run", "s3://no-such-bucket/*/a.parquet", "s3://no-such-bucket"])
def test_no_such_bucket(bucket, said, path):
    with pytest.raises(DataError) as caught:
        open_dump([path])
    assert said(caught.value) == "s3://no-such-bucket: there is no such bucket."


def test_a_folder_without_dumps(bucket, said):
    bucket.put("texts/notes.txt", b"x")
    with pytest.raises(DataError, match="the folder holds no Parquet file") as caught:
        open_dump([bucket.url("texts")])
    said(caught.value)


def test_a_file_that_is_none(bucket, said):
    url = bucket.put("cut.parquet", b"PAR1" + bytes(1000))
    with pytest.raises(DataError) as caught:
        open_dump([url])
    assert said(caught.value).startswith(f"{url}: cannot be read as Parquet (")


def test_credentials_of_a_url_are_used_and_never_shown(s3, bucket, make, monkeypatch, said):
    bucket.put("run/a.parquet", make([2, 3]))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    secret = "s3cr3t%2Fof%2Burl"
    url = f"s3://AKIDINURL:{secret}@{bucket.name}/run?endpoint_override=127.0.0.1:{bucket.between.port}&scheme=http"
    report = iscope.analyze(url, recipes=["none"])
    text = str(report) + str(report.to_dict())
    assert bucket.url("run/a.parquet") in text
    for hidden in ("AKIDINURL", "s3cr3t", "endpoint_override"):
        assert hidden not in text
    with pytest.raises(DataError) as caught:
        iscope.analyze(url.replace("/run?", "/rum?"))
    assert said(caught.value) == f"{bucket.url('rum')}: no such file or folder. Did you mean 'run'?"
    with pytest.raises(UsageError) as wrong:
        iscope.analyze(url + "&colour=red")
    known = "region, endpoint_override, scheme, anonymous"
    assert said(wrong.value) == f"s3://{bucket.name}: there is no setting 'colour', only {known}."


def test_outputs_stay_on_this_machine(bucket, sample_data, said):
    local = sample_data / "train_async.parquet"
    for write in (
        lambda: iscope.convert(local, output=bucket.url("out.parquet")),
        lambda: iscope.analyze(local, ledger=bucket.url("ledger")),
        lambda: iscope.RolloutWriter(bucket.url("dump")),
        lambda: iscope.replay(local, recipe="none", output=bucket.url("weights.parquet")),
    ):
        with pytest.raises(UsageError, match="iscope writes to this machine only") as caught:
            write()
        said(caught.value)
