"""Readers of the frameworks' own configuration files, and writers of their lines. Data, without torch."""

from __future__ import annotations

from importlib import import_module

from iscope.errors import UsageError, did_you_mean
from iscope.recipes.configs.model import ConfigTable

# A framework's name, and the module whose TABLE says which of its settings make which recipe.
TABLES = {
    "trl": "iscope.recipes.configs.trl",
    "prime-rl": "iscope.recipes.configs.prime_rl",
    "verl": "iscope.recipes.configs.verl",
    "skyrl": "iscope.recipes.configs.skyrl",
    "slime": "iscope.recipes.configs.slime",
    "nemo-rl": "iscope.recipes.configs.nemo_rl",
    "openrlhf": "iscope.recipes.configs.openrlhf",
    "ms-swift": "iscope.recipes.configs.ms_swift",
    "areal": "iscope.recipes.configs.areal",
    "miles": "iscope.recipes.configs.miles",
    "open-instruct": "iscope.recipes.configs.open_instruct",
}


def config_table(framework: str) -> ConfigTable:
    """Return the table of a framework's settings.

    Raises:
        UsageError: when there is none of this name.
    """
    if framework not in TABLES:
        known = ", ".join(TABLES)
        hint = did_you_mean(framework, TABLES) or f" Known are {known}."
        raise UsageError(f"iscope knows no configuration of a framework {framework!r}.{hint}")
    table: ConfigTable = import_module(TABLES[framework]).TABLE
    return table
