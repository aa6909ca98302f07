"""From a framework's configuration to the recipe that it makes: which row, which bounds, what was ignored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iscope.errors import UsageError
from iscope.recipes.configs import TABLES, config_table
from iscope.recipes.configs.files import read_config
from iscope.recipes.configs.found import Found, find_settings
from iscope.recipes.configs.model import Clash, ConfigRow, ConfigTable, Mark
from iscope.recipes.configs.values import same, spelled
from iscope.recipes.grammar import bind
from iscope.recipes.model import BoundRecipe, Option
from iscope.recipes.options import Value, accepted_names
from iscope.recipes.registry import find


@dataclass(frozen=True)
class Like:
    """The recipe that a configuration makes.

    Attributes:
        recipe: bound, and marked as the user's own.
        said: what was taken from where, and what was ignored, one sentence each.
    """

    recipe: BoundRecipe
    said: tuple[str, ...]


def likes(texts: str | Sequence[str]) -> tuple[list[BoundRecipe], list[str]]:
    """Return the recipes of one configuration or several, and what is to be said of them.

    Args:
        texts: ``FRAMEWORK:FILE`` each.

    Raises:
        UsageError: as of ``like``.
    """
    found = [like(text) for text in ([texts] if isinstance(texts, str) else texts)]
    return [one.recipe for one in found], [sentence for one in found for sentence in one.said]


def like(text: str) -> Like:
    """Return the recipe of ``FRAMEWORK:FILE``, a framework's own configuration file.

    Args:
        text: the framework's prefix, a colon, the file: ``trl:args.json``.

    Raises:
        UsageError: when the file cannot be read, or holds a setting that is unknown, contradicts another, or makes a
            correction that iscope does not replay.
    """
    name, colon, path = (part.strip() for part in text.partition(":"))
    if not colon or not path:
        raise UsageError(f"{text!r} is not FRAMEWORK:FILE; name a framework ({', '.join(TABLES)}) and its file.")
    table = config_table(name)
    found = find_settings(table, read_config(path, table.include))
    row, recipe, taken = resolve(table, found)
    return Like(replace(recipe, named=True, like=f"{name}:{path}"), tuple(_said(table, row, found, recipe, taken)))


def resolve(table: ConfigTable, found: Found) -> tuple[ConfigRow, BoundRecipe, tuple[str, ...]]:
    """Return the row that settings make, its recipe, and the paths of the given settings that went into it.

    Raises:
        UsageError: when settings contradict each other, or make no recipe.
    """
    for clash in table.clashes:
        _check(clash, found)
    row = _row(table, found)
    return (row, *_bound(table, row, found))


def _row(table: ConfigTable, found: Found) -> ConfigRow:
    for row in table.rows:
        if found.meets(row.when):
            return row
    names = dict.fromkeys(path for row in table.rows for path in row.when if path in found.given)
    said = ", ".join(f"{path}={spelled(found.values[path])}" for path in names)
    raise UsageError(f"{found.file}: iscope replays no correction of {table.version} with {said}.")


def _check(clash: Clash, found: Found) -> None:
    if not found.meets(clash.when):
        return
    for path in clash.given:
        if path in found.given and not same(found.values[path], found.defaults[path]):
            because = " and ".join(f"{name} is {spelled(found.values[name])}" for name in clash.when)
            raise UsageError(f"{found.file}: {because}, but there is {found.given[path]}; {clash.why}.")


def _bound(table: ConfigTable, row: ConfigRow, found: Found) -> tuple[BoundRecipe, tuple[str, ...]]:
    """The recipe of a row, and the paths of the settings of the file that went into it."""
    owner, recipe = find(row.recipe)
    options = {name: item for item in (*recipe.options, *owner.loss_options) for name in accepted_names(item)}
    values: dict[str, Value] = {}
    taken = [path for path in row.when if path in found.given]
    for setting in table.settings:
        option = options.get(row.options.get(setting.path, setting.option))
        if option is None:
            continue
        if setting.path in found.given or not isinstance(setting.default, Mark):
            values[option.short] = _fitted(option, found.values[setting.path], setting.words)
            taken += [setting.path] if setting.path in found.given else []
    taken += [path for path in row.told_by if path in found.given]
    absent = [path for path in row.needs if path not in found.given]
    if absent:
        raise UsageError(
            f"{found.file}: {row.recipe} has no default of {', '.join(absent)}: set each in a file it reads."
        )
    try:
        told = row.fixed if row.read is None else {**row.fixed, **row.read(found.values)}
        values |= {options[name].short: value for name, value in told.items()}
        return bind(recipe, owner, values), tuple(dict.fromkeys(taken))
    except UsageError as error:
        raise UsageError(f"{found.file}: {error}") from None


def _fitted(option: Option, value: Value, words: tuple[tuple[Value, Value], ...]) -> Value:
    """The value as the option takes it: in iscope's words, and of its kind where nothing is lost."""
    for theirs, ours in words:
        if same(theirs, value):
            return ours
    if value is None and not option.nullable and "none" in option.choices:
        return "none"
    if option.kind == "int" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _said(table: ConfigTable, row: ConfigRow, found: Found, recipe: BoundRecipe, taken: tuple[str, ...]) -> list[str]:
    source = f"{table.framework}:{found.file}"
    said = [f"{source}: {recipe.spec} from {_taken(table, row, found, recipe, taken)} ({table.version})."]
    unused = [str(item) for path, item in found.given.items() if path not in taken and _moved(found, path)]
    if unused:
        said.append(f"{source}: {', '.join(unused)}: no part of {recipe.name}.")
    said += [f"{source}: {text}." for text in (*found.unreplayed, *found.notes)]
    if found.ignored:
        count = "1 other setting is" if found.ignored == 1 else f"{found.ignored:,} other settings are"
        said.append(f"{source}: {count} ignored, being neither of the correction nor of the loss.")
    return said


def _taken(table: ConfigTable, row: ConfigRow, found: Found, recipe: BoundRecipe, taken: tuple[str, ...]) -> str:
    """The settings of the file that make the recipe; those of the loss at their default, and the absent, in numbers."""
    own = {name for option in recipe.row.options for name in accepted_names(option)}
    telling = {item.path for item in table.settings if row.options.get(item.path, item.option) in own} | set(row.when)
    shown = [str(found.given[path]) for path in taken if path in telling or _moved(found, path)]
    assumed = [path for path in row.when if path not in found.given and found.values[path] not in (None, False)]
    absent = len(table.settings) - len(found.given) - len(assumed)
    parts = [", ".join(shown) if shown else "no setting of the file" if not taken else "its defaults"]
    if assumed:
        parts.append("by default " + ", ".join(f"{path}={spelled(found.values[path])}" for path in assumed))
    if len(taken) > len(shown):
        parts.append(f"{len(taken) - len(shown)} more given, at their default")
    if absent:
        parts.append(f"{absent} {'more ' if shown else ''}absent, at their default")
    return "; ".join(parts)


def _moved(found: Found, path: str) -> bool:
    return not same(found.values[path], found.defaults[path])
