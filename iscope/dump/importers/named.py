"""Everything that one path means, opened: a file, or the files of a folder or glob that hold rollouts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from iscope.dump.files import SUFFIXES, expand
from iscope.dump.importers.formats import formats_named
from iscope.dump.importers.imported import ImportedSource
from iscope.dump.importers.opened import UnknownFormatError, open_source
from iscope.dump.parquet_file import read_footers
from iscope.dump.source import RowSource
from iscope.errors import redacted

_SHOWN = 3


class Opener:
    """From paths to files, and from files to sources: all that is there, opened there and then."""

    def files(self, path: str | os.PathLike[str], pattern: str | None) -> list[str]:
        """Return the files that a path means; see ``expand``."""
        return expand(path, pattern)

    def open(self, file: str, named: str | None) -> RowSource:
        """Open one file; see ``open_source``."""
        return open_source(file, named)


def pattern_of(named: str | None) -> str | None:
    """Return what the names of a format's files look like, as a regular expression; None for any format."""
    return None if named is None else "|".join(item.file for item in formats_named(named)) or None


def open_named(
    path: str | os.PathLike[str], named: str | None, *, whole: bool, opener: Opener | None = None
) -> Iterator[tuple[str, RowSource]]:
    """Yield each file that a path means and its source; what holds no rollouts in a folder is passed over, and said.

    Args:
        path: a file, a folder or a glob.
        named: the format that the user says it has; None finds out.
        whole: whether rows must hold both policies; files with the engine's alone are then passed over too where others
            have both.
        opener: finds and opens the files.

    Raises:
        DataError: when there is nothing there, or nothing of it can be read.
    """
    opener = opener or Opener()
    files = opener.files(path, pattern_of(named))
    if len(files) == 1:
        yield files[0], opener.open(files[0], named)
        return
    read_footers([file for file in files if file.endswith(SUFFIXES)])
    found: list[tuple[str, RowSource]] = []
    passed: list[str] = []
    first: UnknownFormatError | None = None
    for file in files:
        try:
            found.append((file, opener.open(file, named)))
        except UnknownFormatError as error:
            first = first or error
            passed.append(file)
    if first is not None and not found:
        raise first
    if whole:
        found, halves = _with_both(found)
        passed += halves
    _say(path, found, passed)
    yield from found


def _with_both(found: list[tuple[str, RowSource]]) -> tuple[list[tuple[str, RowSource]], list[str]]:
    halves = [file for file, source in found if isinstance(source, ImportedSource) and source.is_half]
    if len(halves) == len(found):
        return found, []
    return [(file, source) for file, source in found if file not in halves], halves


def _say(path: str | os.PathLike[str], found: Sequence[tuple[str, RowSource]], passed: Sequence[str]) -> None:
    if not passed:
        return
    shown = redacted(os.fspath(path))
    names = ", ".join(os.path.relpath(file, os.path.dirname(shown)) for file in passed[:_SHOWN])
    more = ", ..." if len(passed) > _SHOWN else ""
    sentence = f"{len(passed)} files of {shown} hold no rollouts with both policies: {names}{more}."
    for _, source in found:
        if isinstance(source, ImportedSource):
            source.said.append(sentence)
            return
