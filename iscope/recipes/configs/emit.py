"""From a recipe to the lines of a framework's configuration that make it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from iscope.errors import UsageError
from iscope.recipes.configs import config_table
from iscope.recipes.configs.essence import asides, does
from iscope.recipes.configs.found import Found, Given, defaults_of
from iscope.recipes.configs.like import resolve
from iscope.recipes.configs.lines import write_lines
from iscope.recipes.configs.model import Condition, ConfigRow, ConfigTable, Mark, Setting, Values
from iscope.recipes.configs.translate import simplest, translate
from iscope.recipes.configs.values import same
from iscope.recipes.grammar import bind
from iscope.recipes.model import BoundRecipe, Option
from iscope.recipes.options import Value, accepted_names
from iscope.recipes.registry import framework as recipes_of

_NOTHING = "there is nothing to set: it is what the framework does by default"


@dataclass(frozen=True)
class Emitted:
    """A recipe as a framework's settings.

    Attributes:
        recipe: the framework's recipe that the settings make.
        values: the settings, by the table's path.
        lines: the same in the framework's syntax.
        notes: what a recipe of another framework is written as, and what that leaves out or does otherwise at extremes.
    """

    recipe: BoundRecipe
    values: Values
    lines: tuple[str, ...]
    notes: tuple[str, ...] = ()


def emit(recipe: BoundRecipe, framework: str) -> Emitted:
    """Return the settings of a framework's configuration that make a recipe.

    Args:
        recipe: of this framework, or of another; it is then written as the framework's recipe that does the same.
        framework: the framework's name.

    Raises:
        UsageError: when no settings make it, with what comes nearest; or the framework is not known.
    """
    table = config_table(framework)
    written = _write(table, recipe)
    if written is not None:
        return written
    if recipe.name in {row.name for row in recipes_of(framework).recipes}:
        raise UsageError(f"{recipe.spec} cannot be written as settings of {table.version}.")
    found = translate(recipe, table, lambda other: _write(table, other) is not None)
    if found.differences:
        raise UsageError(
            f"{table.framework} has no settings that do what {recipe.spec} does. Nearest is {found.recipe.spec}, but "
            f"{'; '.join(found.differences)}."
        )
    written = _write(table, found.recipe)
    assert written is not None
    notes = (f"written as {found.recipe.spec}", *filter(None, (found.loss,)), *asides(recipe, found.recipe))
    return replace(written, notes=(*notes, *written.notes))


def _write(table: ConfigTable, recipe: BoundRecipe) -> Emitted | None:
    kept, notes = _settable(table, recipe)
    for made in (kept, simplest(kept, recipes_of(kept.framework))):
        for values in _candidates(table, made):
            if _gives(table, values, made):
                lines = write_lines(table, values)
                return Emitted(made, values, lines, notes if lines else (*notes, _NOTHING))
    return None


def _settable(table: ConfigTable, recipe: BoundRecipe) -> tuple[BoundRecipe, tuple[str, ...]]:
    """The recipe without what the framework takes from elsewhere, and a note for each such option."""
    owner = recipes_of(recipe.framework)
    defaults = {option.short: option.default for option in owner.loss_options}
    left = {
        name: why
        for name, why in table.left
        if recipe.framework == table.framework and recipe.options[name] != defaults[name]
    }
    if not left:
        return recipe, ()
    kept = bind(recipe.row, owner, recipe.options | {name: defaults[name] for name in left})
    return kept, tuple(f"{name} is left out: it is {why} there" for name, why in left.items())


def _candidates(table: ConfigTable, recipe: BoundRecipe) -> Iterator[Values]:
    """Settings that may make the recipe, one attempt for each of the table's rows that name it."""
    if recipe.framework != table.framework:
        return
    options = _options(recipe)
    for row in table.rows:
        if row.recipe == recipe.name and all(
            same(recipe.options[option.short], value)
            for name, value in row.fixed.items()
            for option in options
            if name in accepted_names(option)
        ):
            yield _written(table, row, recipe, options)


def _written(table: ConfigTable, row: ConfigRow, recipe: BoundRecipe, options: tuple[Option, ...]) -> Values:
    """Every setting that selects the row, the recipe's own options, and loss options away from their default."""
    defaults = defaults_of(table)
    told = {} if row.write is None else dict(row.write(recipe.options))
    values: dict[str, Value] = {}
    for setting in table.settings:
        path, default = setting.path, defaults[setting.path]
        name = row.options.get(path, setting.option)
        option = next((item for item in options if name in accepted_names(item)), None)
        if path in told:
            values[path] = told[path]
        elif option is not None:
            value = _theirs(setting, recipe.options[option.short])
            own = option in recipe.row.options and (value is not None or path in row.needs)
            if own or path in row.when or not same(value, default):
                values[path] = value
        elif path in row.when:
            values[path] = _chosen(row.when[path], default)
        if setting.old and path in values and same(values[path], default):
            del values[path]
    return {path: value for path, value in values.items() if value is not None or _takes_none(table, path)}


def _takes_none(table: ConfigTable, path: str) -> bool:
    """Whether a setting can be written as none: flags cannot, but for those that stand in a YAML beside them."""
    return table.syntax != "flags" or (table.include is not None and path in table.include.settings)


def _chosen(condition: Condition, default: Value) -> Value:
    if isinstance(condition, Mark):
        return default
    return condition[0] if isinstance(condition, tuple) else condition


def _theirs(setting: Setting, value: Value) -> Value:
    """A value of an option in the configuration's words."""
    for theirs, ours in setting.words:
        if same(ours, value):
            return theirs
    return None if value == "none" else value


def _options(recipe: BoundRecipe) -> tuple[Option, ...]:
    return (*recipe.row.options, *recipes_of(recipe.framework).loss_options)


def _gives(table: ConfigTable, values: Values, recipe: BoundRecipe) -> bool:
    """Whether reading these settings gives the recipe back."""
    defaults = defaults_of(table)
    given = {path: Given(path, value, "") for path, value in values.items()}
    try:
        _, found, _ = resolve(table, Found("", given, {**defaults, **values}, defaults, 0, ()))
    except UsageError:
        return False
    return does(found) == does(recipe)
