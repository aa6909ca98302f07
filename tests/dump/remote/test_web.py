"""Web servers, on loopback."""

from __future__ import annotations

import sys

import pytest

import iscope
from iscope.dump import open_dump
from iscope.dump.remote import failures
from iscope.errors import DataError, UsageError
from tests.dump.remote.servers import proxy, refused, web_server
from tests.dump.remote.test_s3 import without_provenance


@pytest.fixture
def web(sample_data):
    with web_server(sample_data) as (host, port), proxy(host, port) as between:
        yield between


def url_of(between, path, before="", after=""):
    return f"http://{before}127.0.0.1:{between.port}/{path}{after}"


def test_a_file_gives_the_report_of_its_local_copy(web, sample_data):
    url = url_of(web, "train_async.parquet")
    remote = iscope.analyze(url, recipes=["none"])
    assert without_provenance(remote) == without_provenance(
        iscope.analyze(sample_data / "train_async.parquet", recipes=["none"])
    )
    assert [file["path"] for file in remote.provenance["files"]] == [url]
    assert all(request.start is not None for request in web.gets())


def test_two_sides(web):
    report = iscope.analyze(
        trainer=url_of(web, "base/trainer_fp32_lag0.parquet"), vllm=url_of(web, "base/vllm.parquet"), recipes=["none"]
    )
    assert report.coverage.rollouts_read > 0


def test_a_signed_link_is_used_and_not_shown(web):
    url = url_of(web, "train_async.parquet", "me:pa%2Fss@", "?X-Amz-Signature=0123abcd&part=2#x=secret")
    report = iscope.analyze(url, recipes=["none"])
    shown = url_of(web, "train_async.parquet")
    assert [file["path"] for file in report.provenance["files"]] == [shown]
    assert all("X-Amz-Signature=0123abcd" in request.path for request in web.gets())
    web.refusal = refused(403, "Forbidden")
    with pytest.raises(DataError) as caught:
        open_dump([url])
    assert str(caught.value) == (
        f"{shown}: access denied (HTTP status 403); a link that was signed for a time may have expired."
    )
    assert "0123abcd" not in str(report.to_dict()) + str(report)


def test_nothing_there(web, said):
    url = url_of(web, "train_asink.parquet")
    with pytest.raises(DataError) as caught:
        open_dump([url])
    assert said(caught.value) == f"{url}: no such file or folder."
    assert len(web.requests) == 2


@pytest.mark.parametrize("path", ["base/*.parquet", "base/[a]b.parquet"])
def test_a_web_server_has_no_folders(web, said, path):
    with pytest.raises(DataError) as caught:
        open_dump([url_of(web, path)])
    assert said(caught.value).endswith("a web server cannot be searched; name each file by its URL.")


def test_a_connection_that_is_cut(web, said, sample_data):
    web.cut_after, web.cuts = 50_000, 2
    url = url_of(web, "train_async.parquet")
    report = iscope.analyze(url, recipes=["none"])
    here = iscope.analyze(sample_data / "train_async.parquet", recipes=["none"])
    assert without_provenance(report) == without_provenance(here)
    web.cuts = 1 << 30
    with pytest.raises(DataError, match="5 attempts have failed") as caught:
        iscope.analyze(url, recipes=["none"])
    said(caught.value)


def test_a_server_that_fails_once(web, monkeypatch):
    web.refusal = refused(500, "Internal Server Error")

    def mend(seconds):
        web.refusal = b""

    monkeypatch.setattr(failures.time, "sleep", mend)
    assert open_dump([url_of(web, "train_async.parquet")]).files[0].rows == 416


def test_a_server_that_sends_whole_files_only(sample_data, said):
    with web_server(sample_data, ranges=False) as (host, port):
        url = f"http://{host}:{port}/train_async.parquet"
        with pytest.raises(DataError) as caught:
            open_dump([url])
    assert said(caught.value) == f"{url}: the server sends whole files only, not parts; download the file first."


def test_json_lines(tmp_path):
    line = '{"trainer_logprobs": [-1.0], "inference_logprobs": [-1.5]}\n'
    (tmp_path / "a.jsonl").write_text(line * 3)
    with web_server(tmp_path) as (host, port):
        dump = open_dump([f"http://{host}:{port}/a.jsonl?download=true"])
    assert sum(len(batch) for batch in dump.batches()) == 3


def test_without_the_libraries(web, monkeypatch, said):
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(UsageError) as caught:
        open_dump([url_of(web, "train_async.parquet")])
    assert said(caught.value).endswith(
        "http:// needs a library that is not installed (aiohttp): pip install 'iscope[remote]'."
    )
