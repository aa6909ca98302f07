"""A configuration's recipe on a dump without reference logprobs: the same, without the KL term to the reference."""

from __future__ import annotations

from dataclasses import replace

from iscope.errors import UsageError
from iscope.recipes.configs.solve import solve
from iscope.recipes.grammar import bind
from iscope.recipes.model import BoundRecipe
from iscope.recipes.options import spell
from iscope.recipes.registry import framework

_REF = "ref_logprobs"


def without_reference(recipe: BoundRecipe) -> tuple[BoundRecipe, str]:
    """Return a recipe without the penalty that needs reference logprobs, and what that changes.

    A recipe that does not need them, or needs them for more than its penalty, comes back as it is, with nothing said.
    """
    owner = framework(recipe.framework)
    template = recipe.row.loss or dict(owner.losses)[str(recipe.options.get("loss_type", ""))]
    if _REF not in recipe.needs:
        return recipe, ""
    for options in solve(template.penalty, None):
        try:
            found = bind(recipe.row, owner, recipe.options | options)
        except UsageError:
            continue
        if _REF not in found.needs:
            said = ", ".join(f"{name} {spell(recipe.options[name])} becomes {spell(options[name])}" for name in options)
            why = f"{recipe.like}: the KL term is left out ({said}), since the dump has no {_REF}."
            return replace(found, named=recipe.named, like=recipe.like), why
    return recipe, ""
