"""The recipes and frameworks that this process has registered, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iscope.recipes.model import Framework, Recipe
from iscope.recipes.own.check import checked, checked_framework
from iscope.recipes.own.function import recipe_of

recipes: dict[str, Recipe] = {}
frameworks: dict[str, Framework] = {}


def register(own: Recipe | Framework | Callable[..., Any]) -> None:
    """Make a recipe known by its name in this process, ``iscope.analyze(dump, recipes=["mine/soft:clip_max=3"])``.

    What was registered under the same name before is replaced.

    Args:
        own: a recipe, a whole framework's table, or a function that ``iscope.recipe`` decorates.

    Raises:
        UsageError: when it is not sound, or its name is taken by one of iscope's own.
    """
    if isinstance(own, Framework):
        table = checked_framework(own)
        frameworks[table.name] = table
    else:
        row = checked(own if isinstance(own, Recipe) else recipe_of(own))
        recipes[row.name] = row


def forget(name: str) -> None:
    """Take back what was registered under a name, if anything was."""
    recipes.pop(name, None)
    frameworks.pop(name, None)
