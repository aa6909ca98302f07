"""The scheme of a comparison: which recipes of a plan measure its settings, and how each setting follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iscope.ledger.sweep.families import TokenFamily, rollout_part, token_family, token_part
from iscope.recipes.grammar import parse
from iscope.recipes.model import BoundRecipe


@dataclass(frozen=True)
class Place:
    """Where a setting is measured.

    Attributes:
        kind: ``plain``: it is a recipe of the plan. ``rollouts``: its rules on whole rollouts are applied to the rows
            of a recipe of the plan that has all its others. ``tokens``: it is a setting of a family.
        index: the recipe of the plan, or the family.
        setting: the setting's number in the family.
    """

    kind: str
    index: int
    setting: int = 0


@dataclass(frozen=True)
class Scheme:
    """How the settings of a comparison are measured in one pass.

    Attributes:
        settings: the settings, in report order.
        swept: whether each came from a sweep.
        places: where each is measured.
        recipes: the recipes of the plan.
        families: the families whose settings are summed by interval.
        uncorrected: the plan's recipe that is weight 1 with everything kept.
    """

    settings: tuple[BoundRecipe, ...]
    swept: tuple[bool, ...]
    places: tuple[Place, ...]
    recipes: tuple[BoundRecipe, ...]
    families: tuple[TokenFamily, ...]
    uncorrected: int

    @property
    def shown(self) -> list[int]:
        """The plan's recipes that are settings named without a sweep, in report order."""
        return [place.index for place, swept in zip(self.places, self.swept, strict=True) if not swept]

    @property
    def replayed(self) -> int:
        """Swept settings that no sum gives, each replayed like a recipe."""
        return sum(swept and place.kind == "plain" for place, swept in zip(self.places, self.swept, strict=True))


class _Plan:
    """Recipes and families as they are needed."""

    def __init__(self) -> None:
        self.recipes: list[BoundRecipe] = []
        self.families: list[TokenFamily] = []
        self._hidden: dict[BoundRecipe, int] = {}

    def add(self, recipe: BoundRecipe) -> int:
        self.recipes.append(recipe)
        return len(self.recipes) - 1

    def hidden(self, recipe: BoundRecipe) -> int:
        """A recipe that is no setting itself, once."""
        recipe = replace(recipe, named=False, like="", unused=(), fitted=())
        if recipe not in self._hidden:
            self._hidden[recipe] = self.add(recipe)
        return self._hidden[recipe]


def scheme_of(settings: Sequence[BoundRecipe], swept: Sequence[bool], batch: str | int = "all") -> Scheme:
    """Decide how each setting is measured.

    Args:
        settings: the settings.
        swept: whether each came from a sweep; the others are recipes of the plan as they are.
        batch: the scope of normalisers; sums by interval are for one batch.
    """
    plan, places = _Plan(), list[Place | None]()
    for setting, of_sweep in zip(settings, swept, strict=True):
        places.append(None if of_sweep else Place("plain", plan.add(setting)))
    parts: dict[BoundRecipe, list[int]] = {}
    for index, place in enumerate(places):
        if place is None:
            part = token_part(settings[index])
            if part is None:
                places[index] = Place("plain", plan.add(settings[index]))
            else:
                parts.setdefault(part, []).append(index)
    lone: list[tuple[BoundRecipe, int]] = []
    for part, members in parts.items():
        if len(members) == 1 and rollout_part(settings[members[0]]) is None:
            lone.append((part, members[0]))
            continue
        hidden = plan.hidden(part)
        for index in members:
            places[index] = Place("rollouts", hidden)
    _add_families(plan, lone, settings, places, whole=batch == "all")
    uncorrected = plan.hidden(parse("none"))
    done = tuple(place for place in places if place is not None)
    return Scheme(
        tuple(settings), tuple(swept), done, tuple(plan.recipes), tuple(plan.families), uncorrected=uncorrected
    )


def _add_families(
    plan: _Plan,
    lone: Sequence[tuple[BoundRecipe, int]],
    settings: Sequence[BoundRecipe],
    places: list[Place | None],
    *,
    whole: bool,
) -> None:
    """Gather settings that differ in the bounds of one token rule; what fits nowhere is replayed."""
    bodies: dict[BoundRecipe, list[int]] = {}
    for body, index in lone:
        bodies.setdefault(TokenFamily.body_of(body), []).append(index)
    for members in bodies.values():
        family = token_family([settings[index] for index in members]) if whole and len(members) > 1 else None
        if family is None:
            for index in members:
                places[index] = Place("plain", plan.add(settings[index]))
            continue
        tight = plan.hidden(family.tight)
        plan.families.append(replace(family, recipe=tight))
        for number, index in enumerate(members):
            places[index] = Place("tokens", len(plan.families) - 1, number)
