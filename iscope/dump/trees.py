"""Where files are looked for: folders of this machine."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from typing import Protocol

_GLOB = re.compile(r"[*?\[]")


class Tree(Protocol):
    """Folders and files that can be looked through."""

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder."""

    def is_file(self, path: str) -> bool:
        """Whether there is a file, or anything else that can be opened."""

    def files(self, folder: str) -> Iterator[str]:
        """Yield the files in and below a folder, hidden ones left out, in no order."""

    def matches(self, pattern: str) -> list[str]:
        """Return the files and folders that match a glob, in no order."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; empty where there is none."""

    def parent(self, path: str) -> tuple[str, str]:
        """Return the folder of a path and the name in it."""


class LocalTree:
    """The folders of this machine."""

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder."""
        return os.path.isdir(path)

    def is_file(self, path: str) -> bool:
        """Whether there is a file, or anything else that can be opened."""
        return os.path.exists(path)

    def files(self, folder: str) -> Iterator[str]:
        """Yield the files in and below a folder, hidden ones left out, in no order."""
        for here, folders, names in os.walk(folder):
            folders[:] = [name for name in folders if not is_hidden(name)]
            yield from (os.path.join(here, name) for name in names if not is_hidden(name))

    def matches(self, pattern: str) -> list[str]:
        """Return the files and folders that match a glob, in no order."""
        return glob.glob(pattern, recursive=True)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; empty where there is none."""
        return os.listdir(folder or ".") if os.path.isdir(folder or ".") else []

    def parent(self, path: str) -> tuple[str, str]:
        """Return the folder of a path and the name in it."""
        return os.path.split(path)


def is_glob(text: str) -> bool:
    """Whether a path has wildcards."""
    return _GLOB.search(text) is not None


def is_hidden(name: str) -> bool:
    """Whether a name of a file or folder is one that is passed over; that of a hive folder never is."""
    return name.startswith((".", "_")) and "=" not in name
