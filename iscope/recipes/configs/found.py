"""The settings of a table in a configuration file: given, absent, unknown, or written twice."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iscope.errors import UsageError, did_you_mean
from iscope.recipes.configs.entries import Entry
from iscope.recipes.configs.files import ConfigFile
from iscope.recipes.configs.model import Condition, ConfigTable, Mark, Setting, Values, holds
from iscope.recipes.configs.values import plain, same, spelled
from iscope.recipes.model import Framework
from iscope.recipes.options import Value
from iscope.recipes.registry import framework

# Names this close to a known one are taken for a slip; shorter ones are often close by chance.
_SLIP, _LONG_ENOUGH = 0.92, 8


@dataclass(frozen=True)
class Given:
    """A setting that the file gives: under which path, its plain value, and where."""

    path: str
    value: Value
    where: str

    def __str__(self) -> str:
        """Path, value and place: ``loss_type=dapo (line 3)``."""
        return f"{self.path}={spelled(self.value)}" + (f" ({self.where})" if self.where else "")


@dataclass(frozen=True)
class Found:
    """What a file says about the settings of a table.

    Attributes:
        file: the file as the user named it.
        given: the settings that it gives, by the table's path.
        values: the value of every setting, by the table's path; the framework's default where it is absent.
        defaults: the framework's default of every setting.
        ignored: how many settings of the file are none of the table's.
        unreplayed: settings away from their default that iscope does not replay, one sentence part each.
        notes: what to say of files that it names, one sentence part each.
    """

    file: str
    given: Mapping[str, Given]
    values: Values
    defaults: Values
    ignored: int
    unreplayed: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def meets(self, conditions: Mapping[str, Condition]) -> bool:
        """Whether all of these conditions hold, by the table's path."""
        return all(
            holds(condition, self.values[path], given=path in self.given) for path, condition in conditions.items()
        )


def find_settings(table: ConfigTable, file: ConfigFile) -> Found:
    """Look up a table's settings in a file.

    Raises:
        UsageError: when a setting is unknown, unclear, not among its choices, or given twice with different values.
    """
    known = {root + path: setting for setting in table.settings for path in _paths(setting) for root in table.roots}
    beside = {root + item.path: item for item in table.unreplayed for root in table.roots}
    others = {root + path for path in table.others for root in table.roots}
    spelled_as: dict[str, list[tuple[str, Entry]]] = {}
    ignored, unreplayed = 0, []
    for path, entry in file.entries.items():
        if path in known:
            spelled_as.setdefault(known[path].path, []).append((path, entry))
        elif path in beside:
            item = beside[path]
            if not same(plain(entry.value), item.default):
                unreplayed.append(f"{path}={spelled(plain(entry.value))} is not replayed: {item.why}")
        else:
            if path not in others:
                _refuse_unknown(path, [*known, *beside, *others], table, file.name)
            ignored += 1
    unreplayed += [
        f"{item.path}={spelled(item.absent)}, the default, is not replayed: {item.why}"
        for item in table.unreplayed
        if not isinstance(item.absent, Mark) and not any(root + item.path in file.entries for root in table.roots)
    ]
    given = {}
    for setting in table.settings:
        found = _given(setting, spelled_as.get(setting.path, []), file.name)
        if found is not None:
            given[setting.path] = found
    defaults = defaults_of(table)
    values = defaults | {path: item.value for path, item in given.items()}
    return Found(file.name, given, values, defaults, ignored, tuple(unreplayed), file.notes)


def _paths(setting: Setting) -> tuple[str, ...]:
    return (setting.path, *setting.aliases)


def _given(setting: Setting, found: list[tuple[str, Entry]], file: str) -> Given | None:
    """The one value of a setting; a second spelling that is none does not count."""
    for path, entry in found:
        if entry.unclear:
            raise UsageError(f"{file}: {path}{_at(entry)}: {entry.unclear}.")
    items = [Given(path, plain(entry.value), entry.where) for path, entry in found]
    items = [item for item in items if item.value is not None or item.path.endswith(setting.path)]
    if len(items) > 1:
        items = [item for item in items if item.value is not None] or items[:1]
    for other in items[1:]:
        if not same(items[0].value, other.value):
            raise UsageError(f"{file}: {items[0]} and {other} are two names of one setting, with different values.")
    if not items:
        return None
    item = items[0]
    if setting.choices and not any(same(item.value, choice) for choice in setting.choices):
        choices = [spelled(choice) for choice in setting.choices]
        hint = did_you_mean(spelled(item.value), choices)
        raise UsageError(f"{file}: {item} must be one of {', '.join(choices)}.{hint}")
    return item


def _at(entry: Entry) -> str:
    return f" ({entry.where})" if entry.where else ""


def defaults_of(table: ConfigTable) -> dict[str, Value]:
    """Return the framework's default of every setting, by the table's path."""
    options = _option_defaults(framework(table.framework))
    return {
        setting.path: options.get(setting.option) if isinstance(setting.default, Mark) else setting.default
        for setting in table.settings
    }


def _option_defaults(owner: Framework) -> dict[str, Value]:
    options = (*owner.loss_options, *(option for row in owner.recipes for option in row.options))
    return {option.name: option.default for option in reversed(options)}


def _refuse_unknown(path: str, names: Sequence[str], table: ConfigTable, file: str) -> None:
    below = any(path.startswith(root + section) for root in table.roots for section in table.sections)
    if not below:
        parent, _, name = path.rpartition(".")
        near = [other.rpartition(".")[2] for other in names if other.rpartition(".")[0] == parent]
        if len(name) < _LONG_ENOUGH or not difflib.get_close_matches(name, near, n=1, cutoff=_SLIP):
            return
    hint = did_you_mean(path, names)
    raise UsageError(f"{file}: {path!r} is no setting of {table.version} that iscope knows.{hint}")
