"""Recipes from a TOML file: ``[recipes."mine/foo"]``, or ``"mine/foo" = "trl/token_mask:clip_max=3"`` for short."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from iscope.errors import UsageError, did_you_mean
from iscope.place import shown
from iscope.recipes.grammar import bind, parse
from iscope.recipes.model import BoundRecipe, Filter, Framework, Function, Loss, Recipe, WeightRule
from iscope.recipes.options import find_option, read_value
from iscope.recipes.own.check import check_name, checked
from iscope.recipes.own.decode import fields_of, hints_of
from iscope.recipes.own.derive import derived
from iscope.recipes.own.where import Where
from iscope.recipes.registry import find

LARGEST = 2**20

_SHAPE = 'every recipe is a table [recipes."NAME"]'

_KEYS = ("base", *(key for key in hints_of(Recipe) if key not in ("name", "base", "defaults")))
# What may be given beside a base without turning it into another correction.
_WORDS = {"name", "summary", "formula", "source", "notes", "framework", "defaults", "base"}


def read_recipes(path: str | os.PathLike[str]) -> dict[str, Recipe]:
    """Return the recipes of a TOML file by name, in its order.

    Args:
        path: the file; functions that it names as ``file.py:function`` stand beside it.

    Raises:
        UsageError: when it cannot be read, or a recipe of it is not sound; names file, table and key.
    """
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror or error}.") from error
    return recipes_of(content, name, Path(path).absolute().parent)


def read_all(paths: Iterable[str | os.PathLike[str]]) -> dict[str, Recipe]:
    """Return the recipes of several files by name.

    Raises:
        UsageError: like ``read_recipes``, and when two files have a recipe of the same name.
    """
    found: dict[str, Recipe] = {}
    homes: dict[str, str] = {}
    for path in paths:
        for name, row in read_recipes(path).items():
            if name in found:
                raise UsageError(f"{os.fspath(path)}: the recipe {name!r} is in {homes[name]} too; rename one of them.")
            found[name], homes[name] = row, os.fspath(path)
    return found


def recipes_of(content: bytes, name: str, folder: Path) -> dict[str, Recipe]:
    """Return the recipes of the content of a TOML file.

    Args:
        content: the file's bytes.
        name: of the file, for errors.
        folder: where functions that it names as ``file.py:function`` are.

    Raises:
        UsageError: like ``read_recipes``.
    """
    try:
        return _Reader(_tables(content, name), name, folder).read()
    except RecursionError as error:
        raise UsageError(f"{name}: its tables are nested too deeply.") from error


def _tables(content: bytes, name: str) -> dict[str, Any]:
    if len(content) > LARGEST:
        raise UsageError(f"{name}: it is larger than {LARGEST:,} bytes, which no file of recipes is.")
    try:
        document = tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: it is no TOML file: not UTF-8 at byte {error.start}.") from error
    except (tomllib.TOMLDecodeError, ValueError) as error:
        raise UsageError(f"{name}: it is no TOML file: {error}.") from error
    for key in document:
        if key != "recipes":
            hint = did_you_mean(key, ("recipes",))
            raise UsageError(f"{name}: there is no table {shown(key)}; {_SHAPE}.{hint}")
    tables = document.get("recipes")
    if not isinstance(tables, dict) or not tables:
        raise UsageError(f"{name}: it has no recipes; {_SHAPE}.")
    return tables


class _Reader:
    """Reads the recipes of one file, each after those that it is based on."""

    def __init__(self, tables: Mapping[str, Any], name: str, folder: Path) -> None:
        self.tables = tables
        self.name = name
        self.folder = folder
        self.done: dict[str, Recipe] = {}
        self.pending: list[str] = []

    def read(self) -> dict[str, Recipe]:
        for name in self.tables:
            self._recipe(name)
        return {name: self.done[name] for name in self.tables}

    def _recipe(self, name: str) -> None:
        if name in self.done:
            return
        where = Where(f'{self.name}: [recipes."{name if len(name) < 80 else name[:77] + "..."}"]')
        check_name(name, where)
        if name in self.pending:
            raise where.at("base").error(f"it goes round in a circle: {' -> '.join((*self.pending, name))}")
        self.pending.append(name)
        table = self.tables[name]
        table = {"base": table} if isinstance(table, str) else table
        if not isinstance(table, dict):
            raise where.error(f"a recipe is a table, or text such as 'trl/token_mask:clip_max=3', not {shown(table)}")
        for key in table:
            if key not in _KEYS:
                raise where.error(f"there is no key {shown(key)}; the keys are {', '.join(_KEYS)}", key, _KEYS)
        row = self._based(name, table, where) if "base" in table else self._whole(name, table, where)
        self.done[name] = checked(row, where)
        self.pending.pop()

    def _based(self, name: str, table: Mapping[str, Any], where: Where) -> Recipe:
        text, place = table["base"], where.at("base")
        if not isinstance(text, str):
            raise place.error(f"it must be a recipe, such as 'trl/token_mask:clip_max=3', not {shown(text)}")
        needed = text.partition(":")[0].strip()
        if needed in self.tables:
            self._recipe(needed)
        if "framework" in table:
            raise where.at("framework").error("it is that of the base; leave it out")
        row = _said(lambda: derived(name, parse(text, self.done)), place)
        options = table.get("options", {})
        if isinstance(options, dict):
            row = _said(lambda: derived(name, _bound(row, find(needed, self.done)[0], options)), where.at("options"))
        rest = {
            key: value
            for key, value in table.items()
            if key != "base" and not (key == "options" and isinstance(value, dict))
        }
        return self._with(row, rest, where)

    def _whole(self, name: str, table: Mapping[str, Any], where: Where) -> Recipe:
        if isinstance(table.get("options"), dict):
            raise where.at("options").error(
                "values of options need a base; options are declared as [[...options]] tables"
            )
        row = Recipe(name, summary="", formula="", source=self.name, framework=str(table.get("framework", "")))
        return self._with(row, table, where)

    def _with(self, row: Recipe, table: Mapping[str, Any], where: Where) -> Recipe:
        """The recipe with the parts that a table gives; if they change what it does, it is its base no more."""
        given = fields_of(Recipe, _declared(table, where), where)
        changed = replace(row, **{key: _beside(value, self.folder) for key, value in given.items()})
        return changed if set(given) <= _WORDS else replace(changed, base="")


def _bound(row: Recipe, table: Framework, options: Mapping[str, Any]) -> BoundRecipe:
    every = (*row.options, *table.loss_options)
    read = {
        name: read_value(find_option(row.name, every, name), value) if isinstance(value, str) else value
        for name, value in options.items()
    }
    return bind(row, table, read)


def _declared(table: Mapping[str, Any], where: Where) -> dict[str, Any]:
    """The table with what an option's declaration may leave out: the short form is its name, none its default."""
    options = table.get("options")
    if options is None:
        return dict(table)
    if not isinstance(options, list):
        raise where.at("options").error(f"it must be a list of tables, not {shown(options)}")
    filled = [
        {"short": item.get("name"), "default": "none", "doc": "", **item} if isinstance(item, dict) else item
        for item in options
    ]
    return {**table, "options": filled}


def _said(make: Any, where: Where) -> Recipe:
    """The recipe, or what is wrong with it, with its place."""
    try:
        row: Recipe = make()
    except UsageError as error:
        raise UsageError(f"{where.home} {where.key}: {error}") from error
    return row


def _beside(node: Any, folder: Path) -> Any:
    """A part of a recipe whose functions are looked for beside the file that names them, where they are in files."""
    if isinstance(node, Function) and isinstance(node.call, str) and node.call.rpartition(":")[0].endswith(".py"):
        return replace(node, call=str(folder / node.call))
    if isinstance(node, tuple):
        return tuple(_beside(part, folder) for part in node)
    if isinstance(node, WeightRule | Filter | Loss):
        function = _beside(node.function, folder)
        gate = {"gate": _beside(node.gate, folder)} if isinstance(node, Loss) else {}
        return replace(node, function=function, **gate)
    return node
