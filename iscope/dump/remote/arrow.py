"""S3 and Google Cloud Storage, by the filesystems that come with pyarrow."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from iscope.dump.remote.failures import attempt
from iscope.dump.remote.stores import Entry, Handle
from iscope.dump.remote.urls import Location, credentials
from iscope.errors import UsageError

# Seconds until a connection counts as failed, and until one that says nothing any more does.
CONNECT, STALL = 10.0, 30.0


class ArrowStore:
    """A filesystem of pyarrow as a store."""

    can_list = True

    def __init__(self, filesystem: Any, *, lists_folders: bool = True) -> None:
        """Wrap a filesystem.

        Args:
            filesystem: the filesystem.
            lists_folders: whether a folder that is there only by the files in it is listed.
        """
        self._filesystem, self._lists_folders = filesystem, lists_folders

    def refresh(self) -> None:
        """Nothing is kept."""

    def find(self, path: str) -> Entry | None:
        """Return what is at a path; None where nothing is."""
        from pyarrow.fs import FileType

        found = self._filesystem.get_file_info(path.rstrip("/"))
        return None if found.type == FileType.NotFound else _entry(found)

    def entries(self, folder: str, *, recursive: bool) -> list[Entry]:
        """Return what is in a folder."""
        from pyarrow.fs import FileSelector

        deep = recursive or not self._lists_folders
        found = self._filesystem.get_file_info(FileSelector(folder.rstrip("/"), recursive=deep))
        entries = [_entry(info) for info in found]
        return entries if recursive == deep else _directly_in(folder.rstrip("/"), entries)

    def open(self, path: str) -> Handle:
        """Open a file."""
        return _ArrowHandle(self._filesystem.open_input_file(path))


class _ArrowHandle:
    def __init__(self, file: Any) -> None:
        self._file = file
        self.size: int = file.size()

    def read(self, start: int, stop: int) -> bytes:
        content: bytes = self._file.read_at(stop - start, start)
        return content


def s3(place: Location) -> ArrowStore:
    """Return the store of a bucket on S3, or on a server that speaks its protocol.

    Credentials are those of the URL, else those that the AWS SDK finds: environment, configuration files, the machine's
    role. ``AWS_ENDPOINT_URL_S3`` and ``AWS_ENDPOINT_URL`` name another server; the region is that of the URL, of
    ``AWS_REGION`` or ``AWS_DEFAULT_REGION``, else the bucket's own.

    Raises:
        UsageError: when a setting in the URL is unknown.
    """
    from pyarrow import fs

    settings = _settings(place, ("region", "endpoint_override", "scheme", "anonymous"))
    user, password = credentials(place)
    options: dict[str, Any] = {"retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=1)}
    if user:
        options |= {"access_key": user, "secret_key": password}
    endpoint, scheme = settings.get("endpoint_override"), settings.get("scheme", "https")
    if endpoint is None:
        variables = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        named = next((os.environ[name] for name in variables if os.environ.get(name)), "")
        parts = urlsplit(named if "://" in named else f"https://{named}")
        endpoint, scheme = f"{parts.netloc}{parts.path.rstrip('/')}", parts.scheme
    region = settings.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None:
        region = "us-east-1" if endpoint else attempt(place, lambda: fs.resolve_s3_region(place.path))
    return ArrowStore(
        fs.S3FileSystem(
            **options,
            anonymous=settings.get("anonymous") == "true",
            region=region,
            endpoint_override=endpoint or None,
            scheme=scheme,
            connect_timeout=CONNECT,
            request_timeout=STALL,
        )
    )


def gs(place: Location) -> ArrowStore:
    """Return the store of a bucket on Google Cloud Storage, with the machine's default credentials.

    Raises:
        UsageError: when a setting in the URL is unknown, or the URL holds a user.
    """
    from pyarrow import fs

    settings = _settings(place, ("endpoint_override", "scheme", "anonymous"))
    if place.user:
        raise UsageError(f"{place.shown}: gs:// takes no user; set GOOGLE_APPLICATION_CREDENTIALS to a key file.")
    return ArrowStore(
        fs.GcsFileSystem(
            anonymous=settings.get("anonymous") == "true",
            endpoint_override=settings.get("endpoint_override"),
            scheme=settings.get("scheme", "https"),
            retry_time_limit=timedelta(seconds=CONNECT),
        ),
        lists_folders=False,
    )


def _settings(place: Location, known: tuple[str, ...]) -> dict[str, str]:
    for name in place.settings:
        if name not in known:
            raise UsageError(f"{place.shown}: there is no setting {name!r}, only {', '.join(known)}.")
    return place.settings


def _entry(info: Any) -> Entry:
    from pyarrow.fs import FileType

    stamp = str(info.mtime_ns) if info.mtime_ns is not None else ""
    return Entry(info.path, info.type == FileType.Directory, info.size, stamp)


def _directly_in(folder: str, entries: list[Entry]) -> list[Entry]:
    """Out of all that is below a folder, the files in it, and the folders that the others stand in."""
    found: dict[str, Entry] = {}
    for entry in entries:
        name, slash, _ = entry.path.removeprefix(f"{folder}/").partition("/")
        found[name] = Entry(f"{folder}/{name}", is_folder=True) if slash else found.get(name, entry)
    return list(found.values())
