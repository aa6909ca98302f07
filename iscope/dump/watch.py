"""Files that are being written: which of them are finished, and what opening them gave."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from iscope.dump.dump import Dump, Sides, Source
from iscope.dump.files import NothingThereError, expand, in_order, is_remote
from iscope.dump.importers.imported import ImportedSource
from iscope.dump.importers.named import Opener, pattern_of
from iscope.dump.importers.opened import UnknownFormatError
from iscope.dump.opening import open_dump
from iscope.dump.remote.urls import UNSTAMPED, RemoteName
from iscope.dump.source import RowSource
from iscope.errors import UsageError, redacted

# What a framework puts beside files that it has finished.
MARKER = "STABLE"

Mark = tuple[int, int | str]


@dataclass
class Watch:
    """Tells which files are finished: marked, or quiet for a while.

    A file of an object store is there as a whole or not at all, so it is finished when it is listed.

    Attributes:
        quiet_for: seconds for which a file without a marker must not change.
        clock: seconds that never go back.
    """

    quiet_for: float
    clock: Callable[[], float] = time.monotonic
    _seen: dict[str, tuple[Mark, float]] = field(default_factory=dict)

    def mark(self, file: str) -> Mark | None:
        """Return what changes when a file does; None where it is gone."""
        if isinstance(file, RemoteName):
            return (file.size or 0, "" if file.stamp.startswith(UNSTAMPED) else file.stamp)
        try:
            found = os.stat(file)
        except OSError:
            return None
        return (found.st_size, found.st_mtime_ns)

    def is_finished(self, file: str) -> bool:
        """Whether a file is finished, as far as can be told by now."""
        if isinstance(file, RemoteName):
            return True
        mark, now = self.mark(file), self.clock()
        if mark is None:
            return False
        if os.path.exists(os.path.join(os.path.dirname(file), MARKER)):
            return True
        seen, since = self._seen.get(file, (None, now))
        if seen != mark:
            self._seen[file] = (mark, now)
            return self._is_old(mark)
        return now - since >= self.quiet_for or self._is_old(mark)

    def _is_old(self, mark: Mark) -> bool:
        return isinstance(mark[1], int) and time.time() - mark[1] / 1e9 >= self.quiet_for


class Kept(Opener):
    """Opens each file once, and only the files that it is allowed to."""

    def __init__(self) -> None:
        """Allow no file."""
        self.allowed: set[str] = set()
        self._sources: dict[str, RowSource | UnknownFormatError] = {}
        self._of: dict[str, dict[str, str]] = {}

    def look(self, path: str | os.PathLike[str], pattern: str | None) -> list[str]:
        """Return the files that a path means by now; none where there are none yet.

        Raises:
            DataError: when there is no such place.
        """
        try:
            found = expand(path, pattern)
        except NothingThereError:
            found = []
        self._of.setdefault(os.fspath(path), {}).update({file: file for file in found})
        return found

    def files(self, path: str | os.PathLike[str], pattern: str | None) -> list[str]:  # noqa: ARG002 - known by now
        """Return those of them that are allowed, those that have gone since included."""
        return in_order(file for file in self._of.get(os.fspath(path), {}).values() if file in self.allowed)

    def open(self, file: str, named: str | None) -> RowSource:
        """Open a file, or return what opening it gave before."""
        if file not in self._sources:
            try:
                self._sources[file] = super().open(file, named)
            except UnknownFormatError as error:
                self._sources[file] = error
        found = self._sources[file]
        if isinstance(found, UnknownFormatError):
            raise found
        # What is said of a file may depend on the files beside it, which become more.
        return replace(found, said=list(found.said)) if isinstance(found, ImportedSource) else found

    def forget(self, files: Sequence[str]) -> None:
        """Open these files anew when they are asked for."""
        for file in files:
            self._sources.pop(file, None)


class Opening:
    """A dump that grows: where its files are looked for, and how they are opened."""

    def __init__(self, sources: Sequence[Source], sides: Sides | None, options: Mapping[str, Any]) -> None:
        """Look for nothing yet.

        Args:
            sources: files, folders and globs; none where there are sides.
            sides: those of a dump with several.
            options: of ``open_dump``.

        Raises:
            UsageError: when there is nothing to look at, or data in memory.
        """
        self._sources, self._sides, self._options = sources, sides, options
        given = [sources] if sides is None else [sides.trainer, sides.inference, sides.current, sides.ref]
        self._by_side = [_paths(one) for one in given]
        self._paths = [path for paths in self._by_side for path in paths]
        if not self._paths:
            raise UsageError("No dump was given: name at least one folder or quoted glob.")
        self._pattern = pattern_of(options["from_format"])
        self._kept = Kept()

    def __str__(self) -> str:
        """Return the first place that is looked at."""
        return redacted(os.fspath(self._paths[0]))

    @property
    def paired(self) -> bool:
        """Whether it has sides."""
        return self._sides is not None

    @property
    def strict(self) -> bool:
        """Whether what cannot be used is an error."""
        return bool(self._options["strict"])

    @property
    def pause(self) -> float:
        """Seconds between two looks: short on this machine, longer where each look is a listing of a store."""
        return 15.0 if any(map(is_remote, self._paths)) else 1.0

    def look(self) -> list[str]:
        """Return the files that are there by now, finished or not.

        Raises:
            DataError: when there is no such place.
        """
        return list(dict.fromkeys(file for path in self._paths for file in self._kept.look(path, self._pattern)))

    def forget(self, files: Sequence[str]) -> None:
        """Open these files anew when they are asked for."""
        self._kept.forget(files)

    def open(self, files: Collection[str]) -> Dump | None:
        """Open the dump as if there were these files alone; None where it, or a side of it, has none of them.

        Raises:
            DataError: when they cannot be used together.
        """
        self._kept.allowed = set(files)
        for paths in self._by_side:
            if paths and not any(self._kept.files(path, self._pattern) for path in paths):
                return None
        return open_dump(self._sources, sides=self._sides, opener=self._kept, **self._options)


def _paths(given: Any) -> list[str | os.PathLike[str]]:
    paths = list(given)
    if not all(isinstance(path, str | os.PathLike) for path in paths):
        raise UsageError("Only files, folders and globs can be followed; what is in memory does not grow.")
    return paths
