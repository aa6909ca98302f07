"""Web servers and the Hugging Face Hub, by the filesystems of fsspec."""

from __future__ import annotations

from typing import Any

from iscope.dump.remote.stores import Entry, Handle
from iscope.dump.remote.urls import Location

CONNECT, STALL = 10.0, 30.0


class SpecStore:
    """A filesystem of fsspec as a store."""

    def __init__(
        self, filesystem: Any, *, can_list: bool = True, before: str = "", after: str = "", **reading: Any
    ) -> None:
        """Wrap a filesystem.

        Args:
            filesystem: the filesystem.
            can_list: whether it knows folders.
            before: what its paths have before those of a ``Location``.
            after: what they have behind them.
            reading: options of its ``cat_file``.
        """
        self.can_list = can_list
        self._filesystem, self._before, self._after, self._reading = filesystem, before, after, reading

    def refresh(self) -> None:
        """Forget what was listed before."""
        self._filesystem.invalidate_cache()

    def find(self, path: str) -> Entry | None:
        """Return what is at a path; None where nothing is."""
        try:
            return self._entry(self._filesystem.info(self._own(path)))
        except FileNotFoundError as error:
            if error.__cause__ is not None:  # a web server that did not answer, or said anything but "not found"
                raise
            return None

    def entries(self, folder: str, *, recursive: bool) -> list[Entry]:
        """Return what is in a folder."""
        own = self._own(folder)
        if recursive:
            found = self._filesystem.find(own, detail=True, withdirs=False).values()
        else:
            found = self._filesystem.ls(own, detail=True)
        return [self._entry(info) for info in found]

    def open(self, path: str) -> Handle:
        """Open a file."""
        own = self._own(path)
        size = self._filesystem.info(own)["size"]
        if size is None:
            raise OSError("the server does not tell the file's size")
        return _SpecHandle(self._filesystem, own, int(size), self._reading)

    def _own(self, path: str) -> str:
        return f"{self._before}{path}{self._after}"

    def _entry(self, info: dict[str, Any]) -> Entry:
        path = str(info["name"]).removeprefix(self._before).removesuffix(self._after).lstrip("/")
        stamp = next((str(info[name]) for name in ("ETag", "blob_id", "mtime", "created") if info.get(name)), "")
        return Entry(path, info["type"] == "directory", info.get("size"), stamp)


class _SpecHandle:
    def __init__(self, filesystem: Any, path: str, size: int, reading: dict[str, Any]) -> None:
        self._filesystem, self._path, self._reading = filesystem, path, reading
        self.size = size

    def read(self, start: int, stop: int) -> bytes:
        content: bytes = self._filesystem.cat_file(self._path, start, stop, **self._reading)
        return content


def web(place: Location) -> SpecStore:
    """Return the store of a web server: files that are named one by one."""
    import aiohttp
    from fsspec.implementations.http import HTTPFileSystem

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT, sock_read=STALL)
    user = place.url.removesuffix(f"?{place.query}").removesuffix(place.path)
    filesystem = HTTPFileSystem(
        headers={"Accept-Encoding": "identity"},  # a part of a compressed answer is of no use
        client_kwargs={"timeout": timeout, "trust_env": True},  # proxies
        skip_instance_cache=True,
    )
    return SpecStore(filesystem, can_list=False, before=user, after=f"?{place.query}" if place.query else "")


def hub(place: Location) -> SpecStore:  # noqa: ARG001 - one store serves all repositories
    """Return the Hugging Face Hub, with the token that ``hf auth login`` or ``HF_TOKEN`` has set."""
    from huggingface_hub import HfFileSystem

    return SpecStore(HfFileSystem(skip_instance_cache=True), cache_type="none")
