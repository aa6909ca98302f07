"""A recipe under a name of the user's: another one with defaults of its own."""

from __future__ import annotations

from dataclasses import replace

from iscope.recipes.model import BoundRecipe, Recipe
from iscope.recipes.registry import framework


def derived(name: str, bound: BoundRecipe) -> Recipe:
    """Return a recipe that is another one, with the values of all of its options as defaults.

    Args:
        name: its own name.
        bound: the other one, with options.
    """
    loss_options = framework(bound.framework).loss_options
    return replace(
        bound.row,
        name=name,
        options=tuple(replace(option, default=bound.options[option.short]) for option in bound.row.options),
        framework=bound.framework,
        defaults=tuple(
            (option.short, bound.options[option.short])
            for option in loss_options
            if bound.options[option.short] != option.default
        ),
        base=bound.imitated if bound.row.framework is None or bound.row.base else "",
    )
