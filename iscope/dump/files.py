"""From what a user typed (files, folders, globs, URLs) to the files meant."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from iscope.dump.remote.urls import RemoteName, located, remote_url
from iscope.dump.trees import LocalTree, Tree, is_glob
from iscope.errors import DataError, UsageError, did_you_mean

SUFFIXES = (".parquet", ".pq", ".parq")
IMPORTED = (".jsonl", ".ndjson", ".jsonl.zst", ".jsonl.gz", ".pt", ".pth", ".pkl")
# Beside the rollouts of training steps, frameworks write those of evaluations.
_EVALUATION = re.compile(r"(^|/)(val|eval)[_-][^/]*$")
_UNFINISHED_STEP = re.compile(r"token_exports/step_\d+$")
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def expand(path: str | os.PathLike[str], pattern: str | None = None) -> list[str]:
    """Return the files of rollouts that one path means, in natural order.

    Args:
        path: a file of any name, a folder (searched recursively for Parquet files, and where there are none for what
            iscope imports) or a glob (``**`` recurses); on this machine, or as the URL of a remote store.
        pattern: a regular expression on the names of the files to take from a folder; None is any of those.

    Returns:
        The files; remote ones are ``RemoteName``s, which print without credentials.

    Raises:
        DataError: when there is nothing there.
        UsageError: when it is a URL that iscope does not read.
    """
    url = remote_url(path)
    if url is None:
        return _expand(LocalTree(), os.fspath(path), pattern)
    from iscope.dump.remote.tree import RemoteTree  # here: it needs libraries that local files do not

    place = located(url)
    tree = RemoteTree(place)
    return [name if isinstance(name, RemoteName) else tree.named(name) for name in _expand(tree, place.shown, pattern)]


class NothingThereError(DataError):
    """A folder or pattern that has no file yet."""


def in_order(files: Iterable[str]) -> list[str]:
    """Return files in natural order: ``step_2`` before ``step_10``."""
    return sorted(files, key=_natural)


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Whether a path is the URL of something that is not on this machine."""
    return remote_url(path) is not None


def identity(path: str) -> str:
    """Return what two names of one file have in common."""
    return path.url if isinstance(path, RemoteName) else os.path.realpath(path)


def local_output(path: str | os.PathLike[str], named: str) -> None:
    """Refuse to write anywhere but on this machine.

    Args:
        path: where something is to be written.
        named: what errors call it.

    Raises:
        UsageError: when it is a URL.
    """
    if is_remote(path):
        raise UsageError(f"{named}: iscope writes to this machine only; name a local file, and copy it there.")


def _expand(tree: Tree, text: str, pattern: str | None) -> list[str]:
    if tree.is_folder(text):
        return _folder(tree, text, pattern)
    if tree.is_file(text):
        return [text]
    if not is_glob(text):
        raise DataError(_no_such_path(tree, text))
    found = in_order(tree.matches(text))
    files = [
        file
        for name in found
        for file in (_folder(tree, name, pattern, empty=True) if tree.is_folder(name) else [name])
    ]
    if not files:
        raise NothingThereError(f"{text}: no file matches this pattern.")
    return list(dict.fromkeys(files))


def hive_values(path: str) -> dict[str, str | int | None]:
    """Return the ``key=value`` folders of a path as columns: int where the value is one, None for Hive's null."""
    values: dict[str, str | int | None] = {}
    for part in Path(path).parts[:-1]:
        key, equals, value = part.partition("=")
        if equals and key:
            text = unquote(value)
            integer = re.fullmatch(r"-?(0|[1-9]\d{0,17})", text)
            values[unquote(key)] = None if value == _HIVE_NULL else int(text) if integer else text
    return values


def _folder(tree: Tree, folder: str, pattern: str | None = None, *, empty: bool = False) -> list[str]:
    names = list(tree.files(folder))
    found = [name for name in names if name.endswith(SUFFIXES)] if pattern is None else []
    if not found:
        there = set(names)
        ours = [name for name in names if pattern is None or re.search(pattern, name)]
        found = [name for name in ours if name.endswith((*IMPORTED, *SUFFIXES)) and _is_training(name, there)]
    if not found and not empty and pattern is not None:
        raise NothingThereError(
            f"{folder}: the folder holds no finished file that is named as the format asked for names them."
        )
    if not found and not empty:
        raise NothingThereError(
            f"{folder}: the folder holds no Parquet file (names ending in {', '.join(SUFFIXES)}) and no finished file "
            f"of a framework that iscope reads ({', '.join(IMPORTED)})."
        )
    return in_order(found)


def _is_training(name: str, there: set[str]) -> bool:
    """Whether a file is neither of an evaluation nor of a step that prime-rl is still writing (it marks whole ones)."""
    here = os.path.dirname(name)
    unfinished = _UNFINISHED_STEP.search(here) and os.path.join(here, "STABLE") not in there
    return not _EVALUATION.search(name) and not unfinished


def _natural(path: str) -> list[tuple[int, int, str]]:
    pieces = re.split(r"(\d+)", path)
    return [(0, int(piece), piece) if piece.isdecimal() else (1, 0, piece) for piece in pieces]


def _no_such_path(tree: Tree, text: str) -> str:
    parent, name = tree.parent(text)
    return f"{text}: no such file or folder.{did_you_mean(name, tree.names(parent))}"
