"""The stores behind the schemes: what is there, what is in a folder, and the bytes of a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Protocol

from iscope.dump.remote.urls import Location
from iscope.errors import UsageError


@dataclass(frozen=True)
class Entry:
    """A file or folder of a store.

    Attributes:
        path: where it is, as in ``Location.path``.
        is_folder: whether it is a folder.
        size: bytes, where known.
        stamp: what changes when it does, where known.
    """

    path: str
    is_folder: bool = False
    size: int | None = None
    stamp: str = ""


class Handle(Protocol):
    """A file of a store, open; may be read by several threads at once, and holds no connection between two reads."""

    size: int

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from ``start`` to before ``stop``."""


class Store(Protocol):
    """A store. Its methods raise whatever the library behind it raises."""

    can_list: bool

    def refresh(self) -> None:
        """Forget what was listed before."""

    def find(self, path: str) -> Entry | None:
        """Return what is at a path; None where nothing is."""

    def entries(self, folder: str, *, recursive: bool) -> list[Entry]:
        """Return what is in a folder; raises FileNotFoundError where there is none."""

    def open(self, path: str) -> Handle:
        """Open a file."""


# A table of strings, so that nothing is imported until a URL asks for it.
STORES = {
    "s3": "iscope.dump.remote.arrow:s3",
    "gs": "iscope.dump.remote.arrow:gs",
    "hf": "iscope.dump.remote.spec:hub",
    "https": "iscope.dump.remote.spec:web",
    "http": "iscope.dump.remote.spec:web",
}


@lru_cache(maxsize=32)
def _store(maker: str, place: Location) -> Store:
    module, _, name = maker.partition(":")
    make: Callable[[Location], Store] = getattr(import_module(module), name)
    return make(place)


def store_of(place: Location) -> Store:
    """Return the store of a place; the same one for all places of the same authority and credentials.

    Raises:
        UsageError: when a library for it is missing.
    """
    bucket = place.path.partition("/")[0]
    try:
        return _store(STORES[place.scheme], place.at(bucket))
    except ImportError as error:
        raise UsageError(
            f"{place.shown}: {place.scheme}:// needs a library that is not installed ({error.name}): "
            "pip install 'iscope[remote]'."
        ) from None


def forget() -> None:
    """Let go of all stores, so that changed credentials and endpoints of the environment count."""
    _store.cache_clear()
