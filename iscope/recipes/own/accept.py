"""Whatever names or is a recipe, bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from iscope.recipes.grammar import bind, parse
from iscope.recipes.model import BoundRecipe, Recipe
from iscope.recipes.own.check import checked
from iscope.recipes.own.function import recipe_of
from iscope.recipes.registry import framework

AnyRecipe: TypeAlias = str | BoundRecipe | Recipe | Callable[..., Any]


def bound(recipe: AnyRecipe, own: Mapping[str, Recipe] | None = None) -> BoundRecipe:
    """Return a recipe with its options bound.

    Args:
        recipe: ``NAME:option=value,...``; a recipe that is bound already; or one at its defaults: a ``Recipe``, or a
            function of the view.
        own: further recipes that can be named, by name.

    Raises:
        UsageError: when it is not accepted.
    """
    if isinstance(recipe, str):
        return parse(recipe, own)
    if isinstance(recipe, BoundRecipe):
        return recipe
    row = checked(recipe) if isinstance(recipe, Recipe) else recipe_of(recipe)
    return bind(row, framework(row.framework or ""), {})
