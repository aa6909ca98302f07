"""One value of a configuration file and where it stands, and nested values as entries by dotted path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

MAX_DEPTH = 40
MAX_ENTRIES = 20_000


class UnreadableError(Exception):
    """A file is not of the kind that it was read as; the message says where."""


@dataclass(frozen=True)
class Entry:
    """One value of a configuration file.

    Attributes:
        value: a text, a number, true or false, None, or a list of such.
        where: where it stands, ``line 3``; empty where the format does not tell.
        unclear: why the file alone does not tell the value; empty where it does.
    """

    value: object
    where: str = ""
    unclear: str = ""


def join(prefix: str, name: str) -> str:
    """Return the path of a name below a prefix; dashes become underscores, as argument parsers do it."""
    word = name.strip().replace("-", "_")
    return f"{prefix}.{word}" if prefix else word


def flatten(tree: object) -> dict[str, Entry]:
    """Return the leaves of nested dictionaries by dotted path; a list is a leaf.

    Raises:
        UnreadableError: when the tree is no dictionary, is nested too deeply, or has too many leaves.
    """
    if not isinstance(tree, dict):
        raise UnreadableError("there are no named settings at its top")
    found: dict[str, Entry] = {}
    for path, value in _leaves(tree, "", 0):
        found[path] = Entry(value)
        check_count(len(found))
    return found


def check_depth(depth: int) -> None:
    """Refuse nesting that no configuration has."""
    if depth > MAX_DEPTH:
        raise UnreadableError(f"it is nested more than {MAX_DEPTH} levels deep")


def check_count(count: int) -> None:
    """Refuse more settings than any configuration has."""
    if count > MAX_ENTRIES:
        raise UnreadableError(f"it holds more than {MAX_ENTRIES:,} settings")


def _leaves(tree: dict[object, object], prefix: str, depth: int) -> Iterator[tuple[str, object]]:
    check_depth(depth)
    for name, value in tree.items():
        path = join(prefix, str(name))
        if isinstance(value, dict):
            yield from _leaves(value, path, depth + 1)
        elif isinstance(value, list):
            yield path, [item if isinstance(item, str | int | float | None) else str(type(item)) for item in value]
        else:
            yield path, value
