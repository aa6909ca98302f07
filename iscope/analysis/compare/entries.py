"""One entry of the report per setting, wherever it was measured."""

from __future__ import annotations

from dataclasses import replace

from iscope.analysis.compare.rollouts import rollout_totals
from iscope.analysis.compare.tokens import token_totals
from iscope.analysis.compare.totals import Totals, Whole, setting_figures
from iscope.analysis.figures import recipe_figures
from iscope.analysis.figures.gradient import gradients
from iscope.analysis.intervals import closed
from iscope.analysis.recipe_rows import RecipeRows, recipe_rows
from iscope.analysis.rows import Rows
from iscope.ledger.ledger import Ledger
from iscope.ledger.sweep.scheme import Scheme
from iscope.model import Figures, RecipeReport
from iscope.recipes.model import BoundRecipe


def swept_entries(ledger: Ledger, rows: Rows, scheme: Scheme) -> dict[int, RecipeReport]:
    """Return the entries of the settings that came from a sweep, by their number; they have no intervals."""
    plain = replace(rows, bounded=False)
    found: dict[int, RecipeReport] = {}
    shared: dict[tuple[str, int], list[int]] = {}
    for number, (place, swept) in enumerate(zip(scheme.places, scheme.swept, strict=True)):
        if swept and place.kind == "plain":
            found[number] = _replayed(recipe_rows(ledger, plain, place.index))
        elif swept:
            shared.setdefault((place.kind, place.index), []).append(number)
    for (kind, index), members in shared.items():
        found |= _summed(ledger, plain, scheme, kind, index, members)
    return found


def uncorrected(ledger: Ledger, rows: Rows, scheme: Scheme) -> Figures:
    """The figures of weight 1 with everything kept."""
    return closed(recipe_figures(recipe_rows(ledger, replace(rows, bounded=False), scheme.uncorrected)))


def entry_of(recipe: BoundRecipe, unit: str, figures: Figures) -> RecipeReport:
    """Return the entry of a setting; one without figures says what the dump lacks."""
    needs = " and ".join(recipe.needs)
    return RecipeReport(
        name=recipe.name,
        spec=recipe.spec,
        options=recipe.options,
        level=str(recipe.weight.level),
        unit=unit,
        named=recipe.named,
        like=recipe.like,
        fitted=recipe.fitted,
        figures=figures,
        framework={},
        why=None if figures else f"it needs {needs}, which the dump does not have",
    )


def _replayed(rows: RecipeRows) -> RecipeReport:
    return entry_of(rows.recipe, _unit(rows), closed(recipe_figures(rows)) if rows.replayed else {})


def _unit(rows: RecipeRows) -> str:
    return "tokens" if rows.per_token else "rollouts"


def _summed(
    ledger: Ledger, rows: Rows, scheme: Scheme, kind: str, index: int, members: list[int]
) -> dict[int, RecipeReport]:
    settings = [scheme.settings[number] for number in members]
    family = scheme.families[index] if kind == "tokens" else None
    part = recipe_rows(ledger, rows, index if family is None else family.recipe)
    sums = ledger.sweeps[index] if family is not None else None
    if not part.replayed or (family is not None and sums is None):
        return {number: entry_of(one, "rollouts", {}) for number, one in zip(members, settings, strict=True)}
    sides = gradients(part)
    whole = Whole.of(part, None if sides is None else (sides[1].positive, sides[1].negative))
    totals: Totals
    if family is None or sums is None:
        totals = rollout_totals(whole, None if sides is None else sides[0], settings, ledger.plan.precision)
    else:
        totals = token_totals(part, family, sums, gradient=sides is not None)
    return {
        number: entry_of(
            setting,
            _unit(part),
            setting_figures(whole, totals, place if family is None else scheme.places[number].setting, setting),
        )
        for place, (number, setting) in enumerate(zip(members, settings, strict=True))
    }
