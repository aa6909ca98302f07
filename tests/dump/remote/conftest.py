from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from iscope.dump.parquet_file import _remote_footer
from iscope.dump.remote import failures, stores
from iscope.dump.remote.file import forget_files
from tests.dump.remote.servers import Proxy, proxy, s3_server

KEY, SECRET = "AKIDUSEDBYTESTS", "secret/of+tests"


@dataclass(frozen=True)
class Bucket:
    """A bucket of its own for each test, behind a proxy."""

    name: str
    files: pyarrow.fs.FileSystem
    between: Proxy

    def put(self, key: str, content: bytes | pa.Table, **options: object) -> str:
        with self.files.open_output_stream(f"{self.name}/{key}") as out:
            if isinstance(content, bytes):
                out.write(content)
            else:
                pq.write_table(content, out, **options)
        return self.url(key)

    def put_folder(self, key: str, folder: Path) -> str:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{key}/{path.relative_to(folder)}", path.read_bytes())
        return self.url(key)

    def url(self, key: str) -> str:
        return f"s3://{self.name}/{key}"


@pytest.fixture(scope="session")
def s3() -> Iterator[tuple[str, int]]:
    with s3_server() as address:
        yield address


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing of this machine's settings, nothing kept from another test, and no long waits."""
    nowhere = tmp_path_factory.mktemp("nowhere")
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(nowhere / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(nowhere / "credentials"))
    monkeypatch.setattr(failures, "FIRST_WAIT", 0.01)
    stores.forget()
    forget_files()
    _remote_footer.cache_clear()
    yield
    stores.forget()


@pytest.fixture
def bucket(s3: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    name = f"dumps-{secrets.token_hex(4)}"
    host, port = s3
    files = pyarrow.fs.S3FileSystem(
        access_key=KEY,
        secret_key=SECRET,
        endpoint_override=f"{host}:{port}",
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
    )
    files.create_dir(name)
    with proxy(host, port) as between:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{between.port}")
        yield Bucket(name, files, between)


@pytest.fixture
def said() -> Callable[[BaseException], str]:
    """The text of an error, which is one sentence and keeps secrets."""

    def text(error: BaseException) -> str:
        found = str(error)
        assert "\n" not in found
        assert found.endswith((".", "?"))
        assert SECRET not in found
        assert KEY not in found
        return found

    return text
