"""The folders of a remote store, looked through like local ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from secrets import token_hex

from iscope.dump.remote.failures import MissingError, NoBucketError, attempt
from iscope.dump.remote.stores import Entry, store_of
from iscope.dump.remote.urls import UNSTAMPED, Location, RemoteName
from iscope.dump.trees import is_glob, is_hidden
from iscope.errors import DataError

# Names in a folder that are looked at for a suggestion.
_SIBLINGS = 1000


class RemoteTree:
    """The store of a place. Paths are names as they are printed; those that come out know their URL."""

    def __init__(self, place: Location) -> None:
        """Connect to nothing yet."""
        self._place = place
        self._store = store_of(place)
        self._store.refresh()
        self._known: dict[str, Entry | None] = {}

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder."""
        if not self._store.can_list:
            return False
        found = self._find(self._path(path))
        return found is not None and found.is_folder

    def is_file(self, path: str) -> bool:
        """Whether there is a file.

        Raises:
            DataError: when there is no such bucket.
        """
        found = self._find(self._path(path))
        if found is None and self._store.can_list and self._place.scheme in ("s3", "gs"):
            bucket = self._path(path).partition("/")[0]
            if self._find(bucket) is None:
                raise DataError(f"{self._place.at(bucket).shown}: there is no such bucket.")
        return found is not None and not found.is_folder

    def files(self, folder: str) -> Iterator[str]:
        """Yield the files in and below a folder, hidden ones left out, in no order."""
        here = self._path(folder).rstrip("/")
        for entry in self._entries(here, recursive=True):
            below = entry.path.removeprefix(here).strip("/")
            if not entry.is_folder and not any(map(is_hidden, below.split("/"))):
                yield self._name(entry)

    def matches(self, pattern: str) -> list[str]:
        """Return the files and folders that match a glob, in no order.

        Raises:
            DataError: when the store has no folders to look through.
        """
        if not self._store.can_list:
            raise DataError(f"{self._place.shown}: a web server cannot be searched; name each file by its URL.")
        bucket, *segments = self._path(pattern).split("/")
        return [self._name(entry) for entry in self._matches([Entry(bucket, is_folder=True)], segments)]

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; empty where there is none, or none can be told."""
        path = self._path(folder)
        if not self._store.can_list or not path:
            return []
        try:
            found = self._entries(path, recursive=False)
        except DataError:
            return []
        return [entry.path.rstrip("/").rpartition("/")[2] for entry in found[:_SIBLINGS]]

    def named(self, path: str) -> RemoteName:
        """Return the name of a file that is there."""
        found = self._find(self._path(path))
        assert found is not None, "only files that were found are named"
        return self._name(found)

    def parent(self, path: str) -> tuple[str, str]:
        """Return the folder of a path and the name in it."""
        folder, _, name = self._path(path).rstrip("/").rpartition("/")
        return self._place.at(folder).shown, name

    def _matches(self, folders: Iterable[Entry], segments: list[str]) -> list[Entry]:
        """What the last of some segments of a pattern match, from these folders on."""
        if not segments:
            return list(folders)
        head, *rest = segments
        if "**" in segments:
            return [entry for folder in folders for entry in self._below(folder.path, segments)]
        found: list[Entry] = []
        for folder in folders:
            if is_glob(head):
                inside = self._entries(folder.path, recursive=False, missing_ok=True)
                found += [entry for entry in inside if _matches(entry.path, folder.path, head)]
            elif rest:
                found.append(Entry(f"{folder.path}/{head}", is_folder=True))
            elif (one := self._find(f"{folder.path}/{head}")) is not None:
                found.append(one)
        return self._matches([entry for entry in found if entry.is_folder] if rest else found, rest)

    def _below(self, folder: str, segments: list[str]) -> list[Entry]:
        """What some segments with ``**`` among them match below a folder."""
        fixed = 0
        while not is_glob(segments[fixed]):
            fixed += 1
        folder = "/".join([folder, *segments[:fixed]])
        wanted = _regex(segments[fixed:])
        entries = self._entries(folder, recursive=True, missing_ok=True)
        known = {entry.path.rstrip("/"): entry for entry in entries}
        for path in list(known):  # not every store lists the folders too
            for parent in _parents(path, folder):
                known.setdefault(parent, Entry(parent, is_folder=True))
        return [entry for path, entry in known.items() if wanted.fullmatch(path.removeprefix(folder).lstrip("/"))]

    def _find(self, path: str) -> Entry | None:
        if path not in self._known:
            try:
                self._known[path] = attempt(self._place.at(path), lambda: self._store.find(path))
            except MissingError:
                self._known[path] = None
        return self._known[path]

    def _entries(self, folder: str, *, recursive: bool, missing_ok: bool = False) -> list[Entry]:
        try:
            found = attempt(self._place.at(folder), lambda: self._store.entries(folder, recursive=recursive))
        except NoBucketError:
            raise
        except MissingError:
            if not missing_ok:
                raise
            return []
        self._known |= {entry.path: entry for entry in found}
        return found

    def _path(self, path: str) -> str:
        return path.partition("://")[2]

    def _name(self, entry: Entry) -> RemoteName:
        place = self._place.at(entry.path)
        # What cannot be told from another version of itself is taken to be new each time it is looked for.
        return RemoteName(place.shown, place.url, entry.size, entry.stamp or f"{UNSTAMPED}{token_hex(8)}")


def _matches(path: str, folder: str, pattern: str) -> bool:
    """Whether what is directly in a folder matches a segment; as in a shell, hidden files only where it says so."""
    return _regex([pattern]).fullmatch(path.rstrip("/").removeprefix(folder).lstrip("/")) is not None


def _regex(segments: list[str]) -> re.Pattern[str]:
    """A pattern that matches paths as a glob of several segments does."""
    last = len(segments) - 1
    pieces = []
    for index, segment in enumerate(segments):
        if segment == "**":
            pieces.append(r"(?:[^/.][^/]*(?:/[^/.][^/]*)*)?" if index == last else r"(?:[^/.][^/]*/)*")
        else:
            shown = "" if segment.startswith(".") else r"(?!\.)"
            pieces.append(f"{shown}{_translated(segment)}{'' if index == last else '/'}")
    return re.compile("".join(pieces))


def _translated(segment: str) -> str:
    wild = {"*": "[^/]*", "?": "[^/]"}
    pieces = re.split(r"(\*|\?|\[!?\]?[^\]]*\])", segment)
    return "".join(
        f"[{'^' if piece[1] == '!' else ''}{re.escape(piece[1:-1].removeprefix('!')).replace(chr(92) + '-', '-')}]"
        if piece.startswith("[") and piece.endswith("]") and len(piece) > 2
        else wild.get(piece, re.escape(piece))
        for piece in pieces
    )


def _parents(path: str, folder: str) -> Iterator[str]:
    parent = path.rpartition("/")[0]
    while len(parent) > len(folder):
        yield parent
        parent = parent.rpartition("/")[0]
