"""Whether an own recipe is sound: what its types do not say, checked once, before anything is replayed with it."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from iscope.errors import UsageError
from iscope.place import shown
from iscope.recipes.model import ByOption, Framework, Loss, Option, Recipe, Ref
from iscope.recipes.options import accepted_names, check_value, read_value, spell
from iscope.recipes.own.decode import decode
from iscope.recipes.own.encode import encode
from iscope.recipes.own.fit import check_fit
from iscope.recipes.own.where import Where
from iscope.recipes.registry import ALIASES, FRAMEWORKS, framework, names

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*(/[A-Za-z0-9_][A-Za-z0-9_.@-]*)?", re.ASCII)
_LONGEST_NAME = 100

# How many options a constraint is about, where that is fixed.
_ARITY = {"less": 2, "at_most": 2, "needs": 2}


def checked(row: Recipe, where: Where | None = None) -> Recipe:
    """Return an own recipe with the values of its options as their kinds.

    Args:
        row: the recipe.
        where: where it stands; None where it was made in Python.

    Raises:
        UsageError: when a part is of the wrong type, an option is missing, doubled, not used or unfit for its place, or
            the recipe does not bind at its defaults.
    """
    where = where or Where(f"recipe {getattr(row, 'name', row)!r}")
    if not isinstance(row, Recipe):
        raise where.error(f"it is no Recipe but of type {type(row).__name__}")
    check_name(row.name, where)
    try:
        table = framework(row.framework or "")
    except UsageError as error:
        said = f"it must be a framework, not {shown(row.framework)}"
        raise where.at("framework").error(said, row.framework, FRAMEWORKS) from error
    return _checked(dataclasses.replace(row, framework=table.name), table, where)


def checked_framework(table: Framework, where: Where | None = None) -> Framework:
    """Return an own framework's table with the values of all options as their kinds.

    Args:
        table: the table; its rows leave ``framework`` out.
        where: where it stands; None where it was made in Python.

    Raises:
        UsageError: when its name is taken, or a recipe of it is not sound.
    """
    where = where or Where(f"framework {table.name!r}")
    if not isinstance(table.name, str) or not _NAME.fullmatch(table.name) or "/" in table.name:
        raise where.at("name").error("it must be a word of letters, digits, '_', '.', '-' and '@'")
    if table.name in FRAMEWORKS:
        raise where.at("name").error(f"{table.name!r} is one of iscope's own frameworks; choose another name")
    place = where.at("loss_options")
    options = tuple(_option(option, place.at(index)) for index, option in enumerate(table.loss_options))
    for index, (_, loss) in enumerate(table.losses):
        decode(Loss, encode(loss), where.at("losses").at(index))
    table = dataclasses.replace(table, loss_options=options)
    rows = []
    for row in table.recipes:
        home = Where(f"recipe {row.name!r}")
        if not row.name.startswith(f"{table.name}/"):
            raise home.at("name").error(f"it must begin with '{table.name}/'")
        rows.append(_checked(row, table, home))
    return dataclasses.replace(table, recipes=tuple(rows))


def check_name(name: Any, where: Where) -> None:
    """Refuse a name that the grammar cannot read, or that is one of iscope's own.

    Raises:
        UsageError: when it is.
    """
    if not isinstance(name, str) or len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise where.error(
            "a name is letters, digits, '_', '.', '-' and '@', with one '/' at most, such as mine/soft_mask"
        )
    prefix, slash, _ = name.partition("/")
    if slash and prefix in FRAMEWORKS:
        raise where.error(f"recipes of {prefix} are iscope's own; choose another prefix, such as mine/")
    if not slash and (name in FRAMEWORKS or name in ALIASES or name in names()):
        raise where.error(f"{name!r} is the name of one of iscope's own; choose another, such as mine/{name}")


def _checked(row: Recipe, table: Framework, where: Where) -> Recipe:
    row = decode(Recipe, encode(row), where)
    try:
        hash(row)
    except TypeError as error:
        raise where.error(f"its parts cannot be told apart ({error})") from error
    options = tuple(_option(option, where.at("options").at(place)) for place, option in enumerate(row.options))
    known = {option.short: option for option in (*options, *table.loss_options)}
    words = {option.short for option in known.values() if "none" in option.choices}
    row = _with_words(dataclasses.replace(row, options=options), words)
    _check_options(row, table, where)
    _check_references(row, known, where)
    check_fit(row, table, where)
    return row


def _with_words(node: Any, options: set[str]) -> Any:
    """A tree of dataclasses and tuples in which ``none`` is a word where it is one of an option's choices."""
    if isinstance(node, ByOption):
        whole = node.option in options
        parts = (("none" if whole and value is None else value, _with_words(p, options)) for value, p in node.parts)
        return dataclasses.replace(node, parts=tuple(parts), otherwise=_with_words(node.otherwise, options))
    if isinstance(node, tuple):
        return tuple(_with_words(part, options) for part in node)
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        fields = {field.name: _with_words(getattr(node, field.name), options) for field in dataclasses.fields(node)}
        return dataclasses.replace(node, **fields)
    return node


def _option(option: Option, where: Where) -> Option:
    listed = option.kind in ("choice", "names")
    if listed != bool(option.choices):
        raise where.error(f"an option of kind {option.kind} has {'choices' if listed else 'no choices'}")
    for name in accepted_names(option):
        if not name.isidentifier():
            raise where.error(f"{name!r} is no name of an option; take letters, digits and '_'")
    default = spell(option.default) if option.default is None or isinstance(option.default, str) else option.default
    try:
        value = read_value(option, default) if isinstance(default, str) else default
        return dataclasses.replace(option, default=check_value("the default", option, value))
    except UsageError as error:
        raise where.at("default").error(str(error).removeprefix("the default: ").rstrip(".")) from error


def _check_options(row: Recipe, table: Framework, where: Where) -> None:
    every = (*row.options, *table.loss_options)
    taken = Counter(name for option in every for name in accepted_names(option))
    twice = [name for name, count in taken.items() if count > 1]
    if twice:
        whose = f", or one of {table.title}'s loss options has that name" if table.loss_options else ""
        raise where.at("options").error(f"{twice[0]!r} is the name of two options{whose}")
    shorts = {option.short: option for option in every}
    for name, value in row.defaults:
        if name not in shorts:
            raise where.at("defaults").error(f"there is no option {name!r}", name, shorts)
        check_value(row.name, shorts[name], value)


def _check_references(row: Recipe, known: Mapping[str, Option], where: Where) -> None:
    parts = {part: set(_references(getattr(row, part))) for part in ("weight", "filters", "filter_list", "loss")}
    if row.weight_if_set is not None:
        parts["weight_if_set"] = {row.weight_if_set[0], *_references(row.weight_if_set[1])}
    for rule in row.constraints:
        if len(rule.options) != _ARITY.get(rule.kind, len(rule.options)) or not rule.options:
            raise where.at("constraints").error(f"'{rule.kind}' is about {_ARITY.get(rule.kind, 'some')} options")
        parts.setdefault("constraints", set()).update(rule.options, (rule.when[0],) if rule.when else ())
    for part, used in parts.items():
        for name in sorted(used - set(known)):
            raise where.at(part).error(f"there is no option {name!r}", name, known)
    unused = [option.short for option in row.options if not any(option.short in used for used in parts.values())]
    if unused:
        raise where.at("options").error(f"{unused[0]!r} is used nowhere; name it where it is a bound, or leave it out")


def _references(node: Any) -> Iterator[str]:
    """Options that a tree of dataclasses and tuples names."""
    if isinstance(node, ByOption):
        yield node.option
        yield from _references((*(part for _, part in node.parts), node.otherwise))
    elif isinstance(node, Ref):
        yield node.option
        yield from (node.otherwise,) if isinstance(node.otherwise, str) else _references(node.otherwise)
    elif isinstance(node, tuple):
        for part in node:
            yield from _references(part)
    elif dataclasses.is_dataclass(node) and not isinstance(node, type):
        for field in dataclasses.fields(node):
            yield from _references(getattr(node, field.name))
