"""References between settings, ``${a.b}``, as OmegaConf writes them: resolved where they name a setting of the file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from iscope.recipes.configs.entries import Entry, join

_REFERENCE = re.compile(r"\$\{\s*(?:oc\.select:\s*)?([\w.-]+)\s*(?:,\s*([^{}$]*?)\s*)?\}", re.ASCII)
_MAX_STEPS = 20


def resolved(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return the settings with plain references replaced by what they name, and the others marked as unclear."""
    return {path: _resolve(path, entry, entries) for path, entry in entries.items()}


def _resolve(path: str, entry: Entry, entries: Mapping[str, Entry]) -> Entry:
    value, here = entry.value, path
    for _ in range(_MAX_STEPS):
        if not isinstance(value, str) or "${" not in value:
            return replace(entry, value=value)
        match = _REFERENCE.fullmatch(value.strip())
        if match is None:
            break
        target = _target(here, match[1])
        if target in entries:
            value, here = entries[target].value, target
        elif match[2] is not None:
            value = match[2].strip("'\"")
        else:
            break
    return replace(entry, unclear=entry.unclear or f"{entry.value} is not told by this file alone; write its value")


def _target(path: str, name: str) -> str:
    """The path that a name refers to; each leading dot is one level up, the first the setting's own."""
    word = name.lstrip(".")
    levels = len(name) - len(word)
    parents = path.split(".")[:-levels] if levels else []
    return join(".".join(parents), word)
