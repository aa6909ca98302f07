"""Which of a report's recipes are the user's own: what is marked, ringed and shown first."""

from __future__ import annotations

from iscope.model import RecipeReport, Report
from iscope.render.nodes import at

_FEW = 3


def own_specs(report: Report) -> set[str]:
    """Return the specs of the recipes that the user runs or asked for.

    Those of the user's configurations come first. Recipes that were named are own too, unless so many are, or all of a
    comparison's, that a mark would tell nothing apart.
    """
    like = {recipe.spec for recipe in report.recipes if recipe.like}
    named = {recipe.spec for recipe in report.recipes if recipe.named}
    if "settings" in report.parts or (len(named) > _FEW and len(named) == len(report.recipes)):
        return like
    return like | named


def advised_spec(report: Report) -> str | None:
    """Return the spec of the setting that a comparison advises, None where it advises none."""
    found = at(report.parts, "advice", "spec")
    return found if isinstance(found, str) else None


def leading(report: Report, most: int) -> list[RecipeReport]:
    """Return the recipes to show where there is room for few: the advised one, the user's own, then the others."""
    own, advised = own_specs(report), advised_spec(report)

    def rank(recipe: RecipeReport) -> int:
        return 0 if recipe.spec == advised else 1 if recipe.spec in own else 2

    return sorted(report.recipes, key=rank)[:most]
