"""A recipe of one framework as a recipe of another that does the same, or the one that comes nearest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from iscope.errors import UsageError
from iscope.recipes.configs.essence import differences, does, essence
from iscope.recipes.configs.fit import bound_or_none, nearest_settings
from iscope.recipes.configs.model import ConfigTable
from iscope.recipes.configs.solve import solve
from iscope.recipes.model import BoundRecipe, Framework, Loss, Penalty, PositiveNLL
from iscope.recipes.options import Value
from iscope.recipes.registry import framework


@dataclass(frozen=True)
class Translation:
    """A recipe of another framework.

    Attributes:
        recipe: with its options bound.
        differences: what it does otherwise, in words; empty where it does the same.
        loss: what stands for the loss where that is chosen apart and has no counterpart; empty where it has.
    """

    recipe: BoundRecipe
    differences: tuple[str, ...]
    loss: str


def translate(recipe: BoundRecipe, table: ConfigTable, writable: Callable[[BoundRecipe], bool]) -> Translation:
    """Return the recipe of a table's framework that does the same, else the one that differs least.

    Args:
        recipe: the recipe wanted.
        table: of the framework whose recipes are tried.
        writable: whether a recipe of it can be written as settings.

    Raises:
        UsageError: when a function computes the recipe, or none of the framework's recipes can be written.
    """
    wanted = essence(recipe)
    best: Translation | None = None
    owner = framework(table.framework)
    for row in dict.fromkeys(row.recipe for row in table.rows):
        for found in nearest_settings(row, wanted):
            said = tuple(differences(wanted, essence(found)))
            if best is not None and len(said) >= len(best.differences):
                continue
            tried = _compared(recipe, found, said)
            if best is not None and len(tried.differences) >= len(best.differences):
                continue
            tried = replace(tried, recipe=simplest(tried.recipe, owner))
            best = tried if writable(tried.recipe) else best
        if best is not None and not best.differences:
            break
    if best is None:
        raise UsageError(f"{recipe.spec} has no counterpart among the settings of {table.version}.")
    return best


def _compared(recipe: BoundRecipe, found: BoundRecipe, said: tuple[str, ...]) -> Translation:
    """A loss that belongs to the row counts; one that is chosen apart from the correction is only said."""
    if "clipped_weight" in (found.loss.type, recipe.loss.type) and found.loss.type != recipe.loss.type:
        clips = "it clips" if recipe.loss.type != "clipped_weight" else "nothing clips"
        said = (*said, f"{clips} that ratio in the loss")
    lossy = _with_loss(found, recipe.loss)
    mine, theirs = (str(item.options.get("loss_type", item.loss.type)) for item in (recipe, found))
    if lossy is not None:
        return Translation(lossy, said, "")
    if recipe.row.loss is not None or found.row.loss is not None:
        return Translation(found, (*said, f"its loss is {theirs}, not {mine}"), "")
    return Translation(found, said, f"{found.framework}'s own loss, {theirs}, stands for the {mine} of {recipe.name}")


def simplest(recipe: BoundRecipe, owner: Framework) -> BoundRecipe:
    """Return the same recipe with every option at its default that changes nothing."""
    for option in (*recipe.row.options, *owner.loss_options):
        if recipe.options[option.short] == option.default:
            continue
        simpler = bound_or_none(recipe.row, owner, recipe.options | {option.short: option.default})
        if simpler is not None and does(simpler) == does(recipe):
            recipe = simpler
    return recipe


def _with_loss(recipe: BoundRecipe, wanted: Loss) -> BoundRecipe | None:
    """The recipe under loss options that make its loss the one wanted; None where there are none."""
    owner = framework(recipe.framework)
    own = {option.short: recipe.options[option.short] for option in recipe.row.options}
    taken = {option.short for option in owner.loss_options}
    losses = [("", recipe.row.loss)] if recipe.row.loss is not None else list(owner.losses)
    for name, template in losses:
        chosen: dict[str, Value] = {"loss_type": name} if name and "loss_type" in taken else {}
        for options in solve(_of_gradient(template), _of_gradient(wanted)):
            if not all(name in taken or own.get(name) == value for name, value in options.items()):
                continue
            found = bound_or_none(recipe.row, owner, own | chosen | {k: v for k, v in options.items() if k in taken})
            if found is not None:
                return found
    return None


def _of_gradient(loss: Loss) -> Loss:
    """The loss as its gradient has it: with weights that are not clipped, -A w and -A w log pi are one."""
    if isinstance(loss.penalty, Penalty) and loss.penalty.coefficient == 0:
        loss = replace(loss, penalty=None)
    if isinstance(loss.positive_nll, PositiveNLL) and loss.positive_nll.coefficient == 0:
        loss = replace(loss, positive_nll=None)
    return replace(loss, type="score", pair=Loss().pair) if loss.type in ("surrogate", "score") else loss
