"""From what a user typed (files, folders, globs) to the files meant."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from iscope.errors import DataError, did_you_mean

SUFFIXES = (".parquet", ".pq", ".parq")
IMPORTED = (".jsonl", ".ndjson", ".jsonl.zst", ".jsonl.gz", ".pt", ".pth", ".pkl")
# Beside the rollouts of training steps, frameworks write those of evaluations.
_EVALUATION = re.compile(r"(^|/)(val|eval)[_-][^/]*$")
_UNFINISHED_STEP = re.compile(r"token_exports/step_\d+$")
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_GLOB = re.compile(r"[*?\[]")


def expand(path: str | os.PathLike[str], pattern: str | None = None) -> list[str]:
    """Return the files of rollouts that one path means, in natural order.

    Args:
        path: a file of any name, a folder (searched recursively for Parquet files, and where there are none for what
            iscope imports) or a glob (``**`` recurses).
        pattern: a regular expression on the names of the files to take from a folder; None is any of those.

    Raises:
        DataError: when there is nothing there.
    """
    text = os.fspath(path)
    if os.path.isdir(text):
        return _folder(text, pattern)
    if os.path.exists(text):
        return [text]
    if "://" in text:
        raise DataError(f"{text}: only local files can be read; copy the dump to this machine first.")
    if not _GLOB.search(text):
        raise DataError(_no_such_path(text))
    found = sorted(glob.glob(text, recursive=True), key=_natural)
    files = [file for name in found for file in (_folder(name, pattern, empty=True) if os.path.isdir(name) else [name])]
    if not files:
        raise DataError(f"{text}: no file matches this pattern.")
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


def _folder(folder: str, pattern: str | None = None, *, empty: bool = False) -> list[str]:
    names = list(_files(folder))
    found = [name for name in names if name.endswith(SUFFIXES)] if pattern is None else []
    if not found:
        ours = [name for name in names if pattern is None or re.search(pattern, name)]
        found = [name for name in ours if name.endswith((*IMPORTED, *SUFFIXES)) and _is_training(name)]
    if not found and not empty and pattern is not None:
        raise DataError(
            f"{folder}: the folder holds no finished file that is named as the format asked for names them."
        )
    if not found and not empty:
        raise DataError(
            f"{folder}: the folder holds no Parquet file (names ending in {', '.join(SUFFIXES)}) and no finished file "
            f"of a framework that iscope reads ({', '.join(IMPORTED)})."
        )
    return sorted(found, key=_natural)


def _files(folder: str) -> Iterator[str]:
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        yield from (os.path.join(here, name) for name in names if not _is_hidden(name))


def _is_training(name: str) -> bool:
    """Whether a file is neither of an evaluation nor of a step that prime-rl is still writing (it marks whole ones)."""
    here = os.path.dirname(name)
    unfinished = _UNFINISHED_STEP.search(here) and not os.path.exists(os.path.join(here, "STABLE"))
    return not _EVALUATION.search(name) and not unfinished


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_")) and "=" not in name


def _natural(path: str) -> list[tuple[int, int, str]]:
    pieces = re.split(r"(\d+)", path)
    return [(0, int(piece), piece) if piece.isdecimal() else (1, 0, piece) for piece in pieces]


def _no_such_path(text: str) -> str:
    parent, name = os.path.split(text)
    siblings = os.listdir(parent or ".") if os.path.isdir(parent or ".") else []
    return f"{text}: no such file or folder.{did_you_mean(name, siblings)}"
