"""Which frameworks there are: a table of strings, each resolved when its recipes are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from iscope.errors import UsageError, did_you_mean
from iscope.recipes.model import Framework, Recipe

# The prefix of the recipes, and the module whose FRAMEWORK holds them; recipes of no framework have no prefix.
FRAMEWORKS = {
    "": "iscope.recipes.generic",
    "trl": "iscope.recipes.trl",
    "prime-rl": "iscope.recipes.prime_rl",
    "verl": "iscope.recipes.verl",
    "nemo-rl": "iscope.recipes.nemo_rl",
    "openrlhf": "iscope.recipes.openrlhf",
    "open-instruct": "iscope.recipes.open_instruct",
    "skyrl": "iscope.recipes.skyrl",
    "slime": "iscope.recipes.slime",
    "miles": "iscope.recipes.miles",
    "areal": "iscope.recipes.areal",
    "ms-swift": "iscope.recipes.ms_swift",
}

# Other accepted names of recipes.
ALIASES = {
    "geo_mask": "geometric_mask",
    "opsm": "off_policy_sequence_mask",
    "trm": "trust_region_mask",
}

_LISTED = " Run 'iscope recipes' for the list."


def framework(name: str) -> Framework:
    """Return a framework's table; the empty name is that of the generic recipes.

    Raises:
        UsageError: when there is none of this name, or when it is that of a plugin that is broken.
    """
    if name in FRAMEWORKS:
        table: Framework = import_module(FRAMEWORKS[name]).FRAMEWORK
        return table
    found = _own_table(name)
    if found is None:
        raise UsageError(f"There is no framework {name!r}.{did_you_mean(name, FRAMEWORKS) or _LISTED}")
    return found


def frameworks() -> tuple[Framework, ...]:
    """Return every framework's table, the generic recipes first."""
    return tuple(framework(name) for name in FRAMEWORKS)


def names() -> tuple[str, ...]:
    """Return the name of every recipe, in the order of the catalogue."""
    return tuple(row.name for table in frameworks() for row in table.recipes)


def find(name: str, own: Mapping[str, Recipe] | None = None) -> tuple[Framework, Recipe]:
    """Return the recipe of this name or alias, and its framework.

    iscope's own tables come first, then ``own``, then what was registered, then what plugins bring.

    Args:
        name: the recipe's name.
        own: further recipes, by name.

    Raises:
        UsageError: when there is none, or when a plugin that should bring it is broken.
    """
    found = lookup(name, own)
    if found is not None:
        return found
    wanted = ALIASES.get(name, name)
    owner = wanted.partition("/")[0] if "/" in wanted else ""
    if owner in FRAMEWORKS:
        refuse(framework(owner), wanted.removeprefix(f"{owner}/"))
    if name and name in FRAMEWORKS:
        rows = ", ".join(row.name for row in framework(name).recipes)
        raise UsageError(f"{name!r} is a framework, not a recipe; its recipes are {rows}.")
    raise UsageError(f"There is no recipe {name!r}.{did_you_mean(name, _every_name(own or {})) or _LISTED}")


def lookup(name: str, own: Mapping[str, Recipe] | None = None) -> tuple[Framework, Recipe] | None:
    """Return like ``find``, None where there is none.

    Raises:
        UsageError: when a plugin that should bring it is broken, or a framework has it and iscope does not replay it.
    """
    wanted = ALIASES.get(name, name)
    owner = wanted.partition("/")[0] if "/" in wanted else ""
    if owner in FRAMEWORKS:
        table = framework(owner)
        for row in table.recipes:
            if row.name == wanted:
                return table, row
    return _own_row(name, own or {})


def _own_table(prefix: str) -> Framework | None:
    from iscope.recipes.own import plugins, registered

    return registered.frameworks.get(prefix) or plugins.table(prefix)


def _own_row(name: str, own: Mapping[str, Recipe]) -> tuple[Framework, Recipe] | None:
    from iscope.recipes.own import registered

    row = own.get(name) or registered.recipes.get(name)
    prefix, slash, rest = name.partition("/")
    table = _own_table(prefix) if slash and row is None and prefix not in FRAMEWORKS else None
    if table is not None:
        row = next((row for row in table.recipes if row.name == name), None)
        refuse(table, rest)
    if row is None:
        return None
    return table if table is not None and row.framework is None else framework(row.framework or ""), row


def _every_name(own: Mapping[str, Recipe]) -> tuple[str, ...]:
    from iscope.recipes.own import plugins, registered

    tabled = (row.name for table in registered.frameworks.values() for row in table.recipes)
    return (*names(), *ALIASES, *own, *registered.recipes, *tabled, *plugins.names())


def refuse(table: Framework, name: str) -> None:
    """Say why, where a framework has a mode, loss type or option of this name that iscope does not replay.

    Raises:
        UsageError: when there is one.
    """
    reason = dict(table.not_replayed).get(name)
    if reason is not None:
        whose = f"{table.title}'s {name}" if table.name else name
        raise UsageError(f"{whose} is not replayed: {reason}.")
