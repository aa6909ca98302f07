"""Recipes of installed packages: entry points of the group ``iscope.recipes``, each the prefix of its recipes.

An entry point names a Recipe, a Framework, a function that ``iscope.recipe`` decorates, a list of them, or a TOML file
within a package (``acme_rl:recipes.toml``). It is loaded when a recipe of its prefix is asked for, or all are listed.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module, metadata, resources
from typing import Any

from iscope.errors import UsageError
from iscope.recipes.model import Framework, Recipe
from iscope.recipes.own.points import installed, package
from iscope.recipes.registry import FRAMEWORKS


def table(prefix: str) -> Framework | None:
    """Return the recipes of the plugin with this prefix as a table; None where none is installed.

    Raises:
        UsageError: when the plugin is broken; names the package, and what failed.
    """
    points = installed().get(prefix)
    if points is None:
        return None
    try:
        if len(points) > 1:
            raise UsageError(f"it is also that of {package(points[1])}")
        return _loaded(points[0])
    except (Exception, SystemExit) as error:  # whatever the code of others raises
        said = str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"
        lines = said.strip().splitlines() or [""]
        raise UsageError(
            f"The recipes {prefix}/... of the package {package(points[0])} cannot be used: {lines[0].rstrip('.')}."
        ) from error


def tables() -> tuple[list[Framework], list[str]]:
    """Return the tables of every plugin, and of each broken one what is wrong with it."""
    found, broken = list[Framework](), list[str]()
    for prefix in installed():
        try:
            loaded = table(prefix)
        except UsageError as error:
            broken.append(str(error))
        else:
            found += [loaded] if loaded is not None else []
    return found, broken


def names() -> tuple[str, ...]:
    """Return the name of every recipe of plugins that are not broken."""
    return tuple(row.name for found in tables()[0] for row in found.recipes)


@cache
def _loaded(point: metadata.EntryPoint) -> Framework:
    from iscope.recipes.own.check import checked, checked_framework

    if point.name in FRAMEWORKS:
        raise UsageError(f"{point.name!r} is one of iscope's own frameworks")
    value = _toml(point) if point.value.endswith(".toml") else point.load()
    if isinstance(value, Framework):
        if value.name != point.name:
            raise UsageError(f"its framework is named {value.name!r}, not {point.name!r} like its entry point")
        return checked_framework(value)
    rows = tuple(checked(_row(item)) for item in (value if isinstance(value, list | tuple) else [value]))
    for row in rows:
        if not row.name.startswith(f"{point.name}/"):
            raise UsageError(f"the name of its recipe {row.name!r} does not begin with '{point.name}/'")
    return Framework(name=point.name, title=point.name, version=f"from {package(point)}", recipes=rows)


def _row(item: Any) -> Recipe:
    from iscope.recipes.own.function import recipe_of

    if isinstance(item, Recipe):
        return item
    if callable(item):
        return recipe_of(item)
    raise UsageError(f"it holds no Recipe but what is of type {type(item).__name__}")


def _toml(point: metadata.EntryPoint) -> list[Recipe]:
    from pathlib import Path

    from iscope.recipes.own.toml import recipes_of

    module, _, name = point.value.partition(":")
    home = resources.files(import_module(module.strip()))
    content = home.joinpath(name.strip()).read_bytes()
    return list(recipes_of(content, point.value, Path(str(home))).values())
