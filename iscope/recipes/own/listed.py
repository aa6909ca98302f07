"""Own recipes as tables, for a catalogue; nothing of them is imported where there are none."""

from __future__ import annotations

from collections.abc import Mapping

from iscope.recipes.model import Framework, Recipe
from iscope.recipes.own import points
from iscope.recipes.registry import FRAMEWORKS


def table_of(title: str, own: Mapping[str, Recipe]) -> Framework:
    """Return own recipes as a table without loss options, which are those of each recipe's framework."""
    return Framework(name="", title=title, version="", recipes=tuple(own.values()))


def plugin_tables() -> tuple[list[Framework], list[str]]:
    """Return the tables of every plugin, and of each broken one what is wrong with it."""
    if not points.installed():
        return [], []
    from iscope.recipes.own import plugins

    return plugins.tables()


def is_framework(name: str) -> bool:
    """Whether a name is that of a framework, or the prefix of a plugin."""
    return name != "" and (name in FRAMEWORKS or ("/" not in name and ":" not in name and name in points.installed()))
