"""Connections that are cut, servers that refuse or say nothing."""

from __future__ import annotations

import os
import socket

import pytest

import iscope
from iscope.cli.app import run
from iscope.dump import open_dump
from iscope.dump.remote import arrow, failures, stores
from iscope.dump.remote.urls import located
from iscope.errors import DataError
from tests.dump.remote.servers import refused
from tests.dump.remote.test_s3 import wide, without_provenance


@pytest.fixture
def big(bucket):
    """A file whose columns come in pieces of several hundred kilobytes."""
    url = bucket.put("wide.parquet", wide(), row_group_size=500, compression="none", use_dictionary=False)
    bucket.between.requests.clear()
    return url


def test_a_cut_in_the_middle_of_a_file_is_mended(bucket, big):
    whole = iscope.analyze(big, recipes=["none"])
    bucket.between.cut_after, bucket.between.cuts = 100_000, 3
    before = len(bucket.between.gets())
    report = iscope.analyze(big, recipes=["none"])
    assert without_provenance(report) == without_provenance(whole)
    footer, cuts = 1, 3
    assert len(bucket.between.gets()) - before == before - footer + cuts


@pytest.mark.parametrize("command", ["analyze", "convert"])
def test_a_connection_that_is_always_cut_is_one_sentence(bucket, big, tmp_path, capsys, command):
    bucket.between.cut_after, bucket.between.cuts = 100_000, 1 << 30
    output = tmp_path / ("report.json" if command == "analyze" else "out.parquet")
    words = [big, "-o", str(output)] if command == "analyze" else [big, str(output)]
    assert run([command, *words]) == 3
    shown = capsys.readouterr()
    message = f"iscope: error: {big}: cannot be read over the network, 5 attempts have failed ("
    assert shown.err.startswith(message)
    assert shown.err.endswith("run this again once the connection is stable, or copy the file here first.\n")
    assert shown.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_same_request_is_tried_five_times(bucket, big):
    bucket.between.cut_after, bucket.between.cuts = 100_000, 1 << 30
    with pytest.raises(DataError):
        iscope.analyze(big, recipes=["none"])
    asked = [(request.start, request.stop) for request in bucket.between.gets()]
    assert max(map(asked.count, asked)) == failures.ATTEMPTS == 5


def test_a_busy_server_is_asked_again(bucket, big):
    bucket.between.refusal = refused(503, "Slow Down")
    with pytest.raises(DataError, match="5 attempts have failed") as caught:
        open_dump([big])
    assert str(caught.value).startswith(f"{big}: cannot be read over the network")
    assert len(bucket.between.requests) == 5


def test_denied(bucket, big, said, monkeypatch):
    bucket.between.refusal = refused(403, "Forbidden")
    with pytest.raises(DataError) as caught:
        open_dump([big])
    assert said(caught.value) == (
        f"{big}: access denied (ACCESS_DENIED during HeadObject operation: No response body); check that the "
        "credentials in use may read it, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
    )
    assert len(bucket.between.requests) == 1
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    stores.forget()
    with pytest.raises(DataError, match="access denied, and no credentials were found: set AWS_ACCESS_KEY_ID"):
        open_dump([big])


def test_another_region(bucket, big, said):
    bucket.between.refusal = refused(301, "Moved Permanently")
    with pytest.raises(DataError) as caught:
        open_dump([big])
    assert said(caught.value).endswith("the bucket may be in another region: set AWS_REGION.")


def test_no_server(bucket, big, said, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    stores.forget()
    with pytest.raises(DataError, match="5 attempts have failed") as caught:
        open_dump([big])
    said(caught.value)


def test_a_server_that_says_nothing(bucket, big, said, monkeypatch):
    monkeypatch.setattr(arrow, "STALL", 0.3)
    monkeypatch.setattr(failures, "ATTEMPTS", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{silent.getsockname()[1]}")
        stores.forget()
        with pytest.raises(DataError, match="2 attempts have failed") as caught:
            open_dump([big])
    said(caught.value)


def test_a_file_that_was_replaced_meanwhile(bucket, big, make, said):
    dump = open_dump([big])
    bucket.put("wide.parquet", make([1, 2]))
    with pytest.raises(DataError) as caught:
        list(dump.batches())
    assert said(caught.value).startswith(f"{big}: ")


def test_secrets_are_in_no_output_of_the_command_line(bucket, big, capsys, monkeypatch):
    monkeypatch.setenv("ISCOPE_TRACEBACK", "1")
    bucket.between.refusal = refused(403, "Forbidden")
    url = f"s3://AKIDINURL:s3cr3t%2Fof@{bucket.name}/wide.parquet"
    for words in ([url], [url, "--trainer", "x"], ["--trainer", url], ["-o", url, url], [url, "--format", "json"]):
        assert run(["analyze", *words]) in (2, 3)
        shown = capsys.readouterr()
        assert "iscope: error: " in shown.err
        for hidden in ("AKIDINURL", "s3cr3t", os.environ["AWS_SECRET_ACCESS_KEY"]):
            assert hidden not in shown.out + shown.err


class AnsweredError(Exception):
    """What a library raises for an answer of a server."""

    def __init__(self, text="", status=None, code=None):
        super().__init__(text)
        if status is not None:
            self.response = type("Response", (), {"status_code": status})()
        if code is not None:
            self.status = code


def caused(error, cause):
    error.__cause__ = cause
    return error


SAID = {
    "denied by the hub": (AnsweredError("secret", status=401), "access denied (HTTP status 401)", "set HF_TOKEN"),
    "nothing at the hub": (caused(FileNotFoundError("x"), AnsweredError(status=404)), "no such file or folder", ""),
    "a name the hub refuses": (caused(FileNotFoundError("x"), ValueError("bad name")), "no such file or folder", ""),
    "denied by google": (OSError("google::cloud::Status(PERMISSION_DENIED: no)"), "access denied", ""),
    "no right here": (PermissionError("no"), "access denied", ""),
    "a refusal": (AnsweredError("teapot", code=418), "the request was refused (teapot)", ""),
    "a range that is gone": (OSError("AWS Error UNKNOWN (HTTP status 416) during GetObject"), "was replaced while", ""),
    "a bucket that resolves to nothing": (OSError("Bucket 'datasets' not found"), "there is no such bucket", ""),
}


@pytest.mark.parametrize(("error", "message", "help_"), SAID.values(), ids=SAID)
def test_what_no_further_attempt_can_mend(error, message, help_):
    tried = []

    def action():
        tried.append(1)
        raise error

    with pytest.raises(DataError) as caught:
        failures.attempt(located("hf://datasets/me/a.parquet"), action)
    assert message in str(caught.value)
    assert help_ in str(caught.value)
    assert len(tried) == 1


MENDED = [
    OSError("AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 56"),
    OSError("AWS Error SLOW_DOWN during GetObject operation"),
    TimeoutError(),
    AnsweredError("busy", status=503),
    AnsweredError("too many", code=429),
    caused(FileNotFoundError("x"), AnsweredError(status=500)),
    caused(FileNotFoundError("x"), ConnectionResetError()),
]


@pytest.mark.parametrize("error", MENDED, ids=str)
def test_what_is_tried_again(error):
    answers = [error, error, None]

    def action():
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        return "done"

    assert failures.attempt(located("hf://datasets/me/a.parquet"), action) == "done"


def test_what_nobody_waits_for_is_not_tried_again():
    tried = []

    def action():
        tried.append(1)
        raise OSError("cut")

    with pytest.raises(DataError, match="1 attempts have failed"):
        failures.attempt(located("hf://datasets/me/a.parquet"), action, lambda: False)
    assert tried == [1]
