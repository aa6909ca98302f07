"""Files that a configuration names: what it builds on, and what comes on top of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from iscope.errors import UsageError
from iscope.place import shown
from iscope.recipes.configs.entries import Entry
from iscope.recipes.configs.model import Include

_MAX_FILES = 20
# Beside the settings of a mapping: it takes the place of the one it builds on, instead of adding to it.
_INSTEAD = "_override_"

Entries = Mapping[str, Entry]


def with_included(
    file: str, entries: Entries, include: Include, read: Callable[[str], Entries]
) -> tuple[dict[str, Entry], tuple[str, ...]]:
    """Return a file's settings with those of the files that it names, and what to say of them, one part each.

    Args:
        file: the file as the user named it.
        entries: its settings, references as they stand.
        include: the settings that name further files.
        read: reads one of them.

    Raises:
        UsageError: when a file that must be there is not, or files name each other without end.
    """
    return _Reader(include, read).complete(file, entries)


class _Reader:
    """Reads what files name, and counts how many there were."""

    def __init__(self, include: Include, read: Callable[[str], Entries]) -> None:
        self.include = include
        self.read = read
        self.count = 0

    def complete(self, file: str, entries: Entries) -> tuple[dict[str, Entry], tuple[str, ...]]:
        own, found, notes = dict(entries), dict[str, Entry](), list[str]()
        for setting, text in [(path, text) for path in self.include.paths for text in _names(own.get(path))]:
            path = _beside(file, text)
            if path is None:
                notes.append(self._absent(file, setting, text))
                continue
            self.count += 1
            if self.count > _MAX_FILES:
                raise UsageError(f"{file}: {setting} leads to more than {_MAX_FILES} files.")
            name = Path(path).name
            read = {
                key: replace(entry, where=f"{name} {entry.where}".strip()) for key, entry in self.read(path).items()
            }
            other, said = self.complete(path, read)
            found = _over(found, other)
            notes += [f"{setting} names {name}, which was read too", *said]
        merged = _over(own, found) if self.include.last else _over(found, own)
        return {key: entry for key, entry in merged.items() if not key.endswith(f".{_INSTEAD}")}, tuple(notes)

    def _absent(self, file: str, setting: str, text: str) -> str:
        said = f"{setting} names {text}, which is neither there nor beside it"
        if self.include.last:
            raise UsageError(f"{file}: {said}; put a copy of it beside {file}, or name it in place of {file}.")
        return f"{said}: what it would set is taken to be at the default"


def _names(entry: Entry | None) -> list[str]:
    value = None if entry is None else entry.value
    values = value if isinstance(value, list) else [value]
    return [value if isinstance(value, str) else shown(value) for value in values if value not in (None, "", "null")]


def _beside(file: str, text: str) -> str | None:
    """Where a file that another names lies: from that other's folder, in it, or from here."""
    folder, path = Path(file).parent, Path(text)
    tried = (folder / path, folder / path.name, path)
    return next((str(where) for where in tried if path.name and _is_file(where)), None)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # no right to look, or a name that no file can have
        return False


def _over(below: Entries, above: Entries) -> dict[str, Entry]:
    """Settings over others; what is above takes the place of a whole mapping where it is a value, or says so."""
    covers = {path.removesuffix(f".{_INSTEAD}") for path in above}
    kept = {path: entry for path, entry in below.items() if not covers.intersection(_parents(path))}
    return {path: entry for path, entry in kept.items() if path not in above} | dict(above)


def _parents(path: str) -> list[str]:
    words = path.split(".")
    return [".".join(words[:count]) for count in range(1, len(words))]
