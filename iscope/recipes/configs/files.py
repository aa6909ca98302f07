"""A framework's configuration file, as its settings by dotted path. Nothing in a file is ever executed.

JSON, TOML, YAML, scripts and argument files that hold ``--flag value`` and ``key.path=value``, and the calls of
configurations in Python. The extension decides, else the content.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from iscope.errors import UsageError
from iscope.recipes.configs import arguments, python_file, references, yaml_file
from iscope.recipes.configs.entries import Entry, UnreadableError, flatten
from iscope.recipes.configs.included import with_included
from iscope.recipes.configs.model import Include

MAX_BYTES = 1 << 20
_KINDS = {
    ".json": "JSON",
    ".toml": "TOML",
    ".yaml": "YAML",
    ".yml": "YAML",
    ".sh": "script",
    ".bash": "script",
    ".slurm": "script",
    ".sbatch": "script",
    ".txt": "arguments",
    ".args": "arguments",
    ".py": "Python",
}


@dataclass(frozen=True)
class ConfigFile:
    """What a file holds.

    Attributes:
        name: the file as the user named it.
        kind: what it was read as.
        entries: its settings by dotted path, words of a path joined by underscores.
        notes: what to say of the files that it names, one sentence part each.
    """

    name: str
    kind: str
    entries: Mapping[str, Entry]
    notes: tuple[str, ...] = ()


def read_config(path: str, include: Include | None = None) -> ConfigFile:
    """Read a configuration file, and the files that it names.

    Args:
        path: the file, at most 1 MiB of UTF-8 text.
        include: the settings that name further files; None where there are none.

    Raises:
        UsageError: when one cannot be read, or is not what its extension says.
    """
    file = _parsed(path)
    if include is not None:
        entries, notes = with_included(path, file.entries, include, lambda other: _parsed(other).entries)
        file = replace(file, entries=entries, notes=notes)
    return replace(file, entries=references.resolved(file.entries))


def _parsed(path: str) -> ConfigFile:
    """A file's settings, references as they stand."""
    text = _text(path)
    tried = []
    for kind in _kinds(path, text):
        try:
            return ConfigFile(path, kind, _parse(kind, text))
        except UnreadableError as error:
            tried.append(f"{kind}: {error}")
        except RecursionError:
            tried.append(f"{kind}: it is nested too deeply")
    raise UsageError(f"{path}: this is not a configuration that iscope can read; tried as {'; as '.join(tried)}.")


def _text(path: str) -> str:
    file = Path(path).expanduser()
    if file.is_dir():
        raise UsageError(f"{path}: this is a folder; name the configuration file in it.")
    try:
        with file.open("rb") as handle:
            data = handle.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file.") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot read it: {getattr(error, 'strerror', None) or error}.") from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path}: a configuration of more than 1 MiB is not read; name the right file.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise UsageError(f"{path}: this is not a text file; name a configuration in JSON, TOML, YAML or a script.")
    if not text.strip():
        raise UsageError(f"{path}: the file is empty.")
    return text


def _kinds(path: str, text: str) -> Iterable[str]:
    kind = _KINDS.get(PurePath(path).suffix.lower())
    if kind is not None:
        return (kind,)
    start = text.lstrip()
    if start.startswith("#!"):
        return ("script",)
    if start.startswith("{"):
        return ("JSON", "YAML")
    return ("arguments", "TOML") if start.startswith(("--", "+")) else ("TOML", "YAML", "arguments")


def _parse(kind: str, text: str) -> dict[str, Entry]:
    if kind == "JSON":
        return _unwrapped(flatten(_json(text)))
    if kind == "Python":
        return python_file.read(text)
    if kind == "TOML":
        return flatten(_toml(text))
    if kind == "YAML":
        return _unwrapped(yaml_file.read(text))
    return arguments.read(text, script=kind == "script")


def _json(text: str) -> object:
    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise UnreadableError(f"{twice!r} is given twice")
        return found

    try:
        return json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise UnreadableError(f"{error.msg} in line {error.lineno}, column {error.colno}") from None
    except ValueError as error:  # a number of thousands of digits
        raise UnreadableError(str(error)) from None


def _toml(text: str) -> object:
    try:
        return tomllib.loads(text)
    except ValueError as error:  # of the syntax, or a number of thousands of digits
        raise UnreadableError(str(error)) from None


def _unwrapped(entries: dict[str, Entry]) -> dict[str, Entry]:
    """Settings as Weights & Biases keeps them, each as ``value`` beside a description, without that level."""
    roots = {path.partition(".")[0] for path in entries if "." in path}
    wrapped = {root for root in roots if f"{root}.value" in entries and f"{root}.desc" in entries}
    deep = {root for root in roots if any(path.startswith(f"{root}.value.") for path in entries)} - wrapped
    deep = {root for root in deep if all(p.startswith((f"{root}.value.", f"{root}.desc")) for p in _of(root, entries))}
    found = {}
    for path, entry in entries.items():
        root = path.partition(".")[0]
        rest = path.removeprefix(f"{root}.")
        if root in wrapped and rest == "value":
            found[root] = entry
        elif root in deep and rest.startswith("value."):
            found[f"{root}.{rest.removeprefix('value.')}"] = entry
        elif root not in wrapped | deep:
            found[path] = entry
    return {path: replace(entry) for path, entry in found.items()}


def _of(root: str, entries: Iterable[str]) -> list[str]:
    return [path for path in entries if path.startswith(f"{root}.")]
