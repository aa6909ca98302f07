"""What ``iscope recipes`` says of a framework's configuration: the recipe it makes, and a recipe as its lines."""

from __future__ import annotations

import sys
from typing import Any

from iscope.recipes.configs.emit import Emitted, emit
from iscope.recipes.configs.like import like
from iscope.recipes.model import BoundRecipe
from iscope.render.strings import prose


def read(text: str) -> BoundRecipe:
    """Return the recipe of ``FRAMEWORK:FILE``; what was taken from where goes to the standard error."""
    found = like(text)
    for sentence in found.said:
        print(prose(sentence), file=sys.stderr)
    return found.recipe


def written(recipe: BoundRecipe, framework: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a recipe as a framework's settings: as a JSON document, and as its lines.

    What they leave out goes to the standard error.
    """
    found = emit(recipe, framework)
    for note in found.notes:
        print(f"iscope: note: {prose(note)}.", file=sys.stderr)
    return {"emit": _document(found, framework, recipe)}, found.lines


def _document(found: Emitted, framework: str, recipe: BoundRecipe) -> dict[str, Any]:
    return {
        "framework": framework,
        "recipe": recipe.spec,
        "as": found.recipe.spec,
        "settings": dict(found.values),
        "lines": list(found.lines),
        "notes": list(found.notes),
    }
