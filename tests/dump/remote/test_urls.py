from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iscope.dump.files import expand, hive_values, identity, is_remote
from iscope.dump.remote.urls import Location, RemoteName, credentials, located, remote_url
from iscope.errors import DataError, UsageError, redacted

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("s3://bucket/run/a.parquet", Location("s3", "bucket/run/a.parquet")),
        ("s3://bucket", Location("s3", "bucket")),
        ("s3://bucket/a?.parquet", Location("s3", "bucket/a?.parquet")),
        ("s3://k:s@bucket/a?region=eu&scheme=http", Location("s3", "bucket/a", "k", "s", "region=eu&scheme=http")),
        ("gs://bucket/run/100%25.parquet", Location("gs", "bucket/run/100%25.parquet")),
        ("hf://datasets/me/run@main/a.parquet", Location("hf", "datasets/me/run@main/a.parquet")),
        ("https://host:8000/a.parquet?sig=x#y", Location("https", "host:8000/a.parquet", query="sig=x")),
        ("HTTPS://me:pw@host/a@b/c.parquet", Location("https", "host/a@b/c.parquet", "me", "pw")),
    ],
)
def test_located(url, place):
    assert located(url) == place


def test_a_url_is_what_it_was():
    for url in ("s3://k:s%2F@bucket/a/b?region=eu", "https://me:pw@host:80/a?b=c", "http://host/a"):
        assert located(url).url == url
    assert credentials(located("s3://k:s%2F@bucket")) == ("k", "s/")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s4://bucket/a", "s4://bucket/a: iscope reads s3://, gs://, hf://, https://, http:// and local files."),
        ("ftp://host/a", "ftp://host/a: iscope reads s3://"),
        ("s3:///a", "s3:///a: this is no URL of a dump: it takes s3://BUCKET/PATH; a password in it must be"),
        ("s3://key:sec/ret@bucket/a", "s3://bucket/a: this is no URL of a dump"),
        ("https://me:sec/ret@host/a", "https://host/a: this is no URL of a dump"),
    ],
)
def test_urls_that_are_none(url, message):
    with pytest.raises(UsageError) as caught:
        expand(url)
    assert str(caught.value).startswith(message)
    assert "sec" not in str(caught.value)


def test_what_is_remote(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd:" / "name").mkdir(parents=True)
    assert not is_remote("odd://name")
    assert not is_remote("a/b.parquet")
    assert is_remote("s3://bucket/a")
    assert remote_url(Path("s3://bucket/a")) == "s3://bucket/a"


def test_a_name_keeps_its_url_and_does_not_show_it():
    name = RemoteName("s3://bucket/step=3/a.parquet", "s3://k:s@bucket/step=3/a.parquet", 7, "now")
    again = pickle.loads(pickle.dumps(name))
    for found in (name, again):
        assert (found.url, found.size, found.stamp) == ("s3://k:s@bucket/step=3/a.parquet", 7, "now")
        assert f"{found}{found!r}" == "s3://bucket/step=3/a.parquet's3://bucket/step=3/a.parquet'"
        assert hive_values(found) == {"step": 3}
        assert identity(found) == name.url


SECRETS = {
    "https://me:{}@host/a": "https://host/a",
    "http://{}@host:80/a": "http://host:80/a",
    "s3://AKID:{}@bucket/a": "s3://bucket/a",
    "s3://AKID:{}/{}@bucket/a": "s3://bucket/a",
    "https://me:{}/{}@host/a": "https://host/a",
    "https://host/a.parquet?X-Amz-Signature={}&x=1": "https://host/a.parquet?...",
    "https://host/a.parquet?sig={}#t={}": "https://host/a.parquet?...",
    "https://host/a.parquet#token={}": "https://host/a.parquet#...",
    "gs://b/a?endpoint_override=http://me:{}@host": "gs://b/a?...",
}


@pytest.mark.parametrize(("url", "shown"), SECRETS.items())
@pytest.mark.parametrize("text", ["{}", "cannot read {} at all", "'{}'", "({}): no", "{}, {}"])
def test_redacted(url, shown, text):
    found = redacted(text.replace("{}", url.replace("{}", "wJalrX")))
    assert "wJalrX" not in found
    assert found == text.replace("{}", shown)


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/run/a.parquet: no such file or folder.",
        "http://127.0.0.1:8000/run@2/a.parquet is there",
        "https://host:80/a:b@c/d",
        "a/b@c: d:e@f",
        "s3://bucket/step_?.parquet: no file matches this pattern.",
        "is it s3://bucket/a? Or gs://bucket/b?",
    ],
)
def test_what_is_no_secret_stays(text):
    assert redacted(text) == text
    assert str(DataError(text)) == text


_CHARACTERS = st.characters(codec="ascii", categories=["L", "N"])


@given(st.text(_CHARACTERS, min_size=12, max_size=40), st.sampled_from([*SECRETS]))
def test_no_secret_is_shown(secret, url):
    if secret not in url.replace("{}", ""):
        assert secret not in redacted(f"said of {url.replace('{}', secret)}: no.")


@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID", "HF_TOKEN"])
def test_keys_of_the_environment_are_not_shown(monkeypatch, name):
    monkeypatch.setenv(name, "wJalrXUtnFEMI")
    assert str(DataError("key wJalrXUtnFEMI is unknown.")) == "key *** is unknown."


def test_local_dumps_need_no_library_of_remote_ones():
    code = """
import sys
from iscope.dump.files import expand
from iscope.dump.parquet import ParquetSource
ParquetSource.open(expand("sample_data/train_async.parquet")[0])
print(sorted({"fsspec", "aiohttp", "huggingface_hub"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"
