"""Which frameworks there are: a table of strings, each resolved when its recipes are asked for."""

from __future__ import annotations

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
}

_LISTED = " Run 'iscope recipes' for the list."


def framework(name: str) -> Framework:
    """Return a framework's table; the empty name is that of the generic recipes.

    Raises:
        UsageError: when there is none of this name.
    """
    if name not in FRAMEWORKS:
        raise UsageError(f"There is no framework {name!r}.{did_you_mean(name, FRAMEWORKS) or _LISTED}")
    table: Framework = import_module(FRAMEWORKS[name]).FRAMEWORK
    return table


def frameworks() -> tuple[Framework, ...]:
    """Return every framework's table, the generic recipes first."""
    return tuple(framework(name) for name in FRAMEWORKS)


def names() -> tuple[str, ...]:
    """Return the name of every recipe, in the order of the catalogue."""
    return tuple(row.name for table in frameworks() for row in table.recipes)


def find(name: str) -> tuple[Framework, Recipe]:
    """Return the recipe of this name or alias, and its framework.

    Raises:
        UsageError: when there is none.
    """
    wanted = ALIASES.get(name, name)
    prefix, slash, _ = wanted.partition("/")
    owner = prefix if slash else ""
    if owner in FRAMEWORKS:
        table = framework(owner)
        for row in table.recipes:
            if row.name == wanted:
                return table, row
        refuse(table, wanted.removeprefix(f"{owner}/"))
    if name and name in FRAMEWORKS:
        rows = ", ".join(row.name for row in framework(name).recipes)
        raise UsageError(f"{name!r} is a framework, not a recipe; its recipes are {rows}.")
    raise UsageError(f"There is no recipe {name!r}.{did_you_mean(name, (*names(), *ALIASES)) or _LISTED}")


def refuse(table: Framework, name: str) -> None:
    """Say why, where a framework has a mode, loss type or option of this name that iscope does not replay.

    Raises:
        UsageError: when there is one.
    """
    reason = dict(table.not_replayed).get(name)
    if reason is not None:
        whose = f"{table.title}'s {name}" if table.name else name
        raise UsageError(f"{whose} is not replayed: {reason}.")
