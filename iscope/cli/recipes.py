"""``iscope recipes``: the catalogue of corrections, one of them in full, or two side by side."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from iscope.cli import catalogue
from iscope.errors import UsageError
from iscope.recipes import describe, framework, frameworks, parse
from iscope.recipes.model import BoundRecipe, Framework, Option, Recipe
from iscope.recipes.own import listed
from iscope.render import plain
from iscope.render.strings import prose

if TYPE_CHECKING:
    from iscope.recipes.difference import Difference

_SCHEMA = {"name": "iscope.recipes", "version": 1}


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            show_default=False,
            help="A recipe, with options or without (trl/token_mask:clip_max=2), or a framework (trl). "
            "Left out: the whole catalogue.",
        ),
    ] = None,
    of: Annotated[
        str | None, typer.Option("--framework", metavar="NAME", help="Only the recipes of one framework.")
    ] = None,
    diff: Annotated[
        tuple[str, str] | None,
        typer.Option("--diff", metavar="A B", help="What differs between two recipes, each with options or without."),
    ] = None,
    recipes_file: Annotated[
        list[str] | None,
        typer.Option("--recipes", metavar="FILE", help="A TOML file of your own recipes. Repeatable."),
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            "--like",
            metavar="FRAMEWORK:FILE",
            help="The recipe that a framework's own configuration makes (verl:run.sh). The file is read, never run.",
        ),
    ] = None,
    emit: Annotated[
        str | None,
        typer.Option("--emit", metavar="FRAMEWORK", help="Print the recipe as lines of a framework's configuration."),
    ] = None,
    format_: Annotated[Literal["terminal", "json"], typer.Option("--format", help="How to print it.")] = "terminal",
) -> None:
    """List the corrections iscope can replay, or show one: formula, options, defaults, source."""
    if sum(given is not None for given in (name, of, diff, like)) > 1:
        raise UsageError("Give a NAME, --framework NAME, --like FRAMEWORK:FILE or --diff A B, not several of them.")
    own = _own(recipes_file or [])
    if diff is not None and emit is None:
        _show(_difference(*(parse(spec, own) for spec in diff)), format_)
    elif like is not None or emit is not None:
        _show(_configured(None if name is None else parse(name, own), like, emit), format_)
    elif name is not None and not listed.is_framework(name):
        _show(_detail(parse(name, own)), format_)
    else:
        _show(_overview(_tables(of if name is None else name, recipes_file or [], own)), format_)


Page = tuple[dict[str, Any], Any]


def _own(files: list[str]) -> dict[str, Recipe]:
    if not files:
        return {}
    from iscope.recipes.own.toml import read_all

    return read_all(files)


def _tables(only: str | None, files: list[str], own: Mapping[str, Recipe]) -> tuple[Framework, ...]:
    """The tables to list; a plugin that is broken is a warning."""
    mine = listed.table_of(f"own recipes of {', '.join(files)}", own)
    if only is not None:
        rows = tuple(row for row in mine.recipes if row.framework == only)
        return (framework(only), *((replace(mine, recipes=rows),) if rows else ()))
    found, broken = listed.plugin_tables()
    for said in broken:
        print(f"iscope: warning: {prose(said)}", file=sys.stderr)
    return (*frameworks(), *found, *((mine,) if own else ()))


def _show(page: Page, format_: str) -> None:
    document, lines = page
    if format_ == "json":
        import json

        sys.stdout.write(json.dumps({"schema": _SCHEMA} | document, indent=2, allow_nan=False) + "\n")
    else:
        plain.write(lines(plain.page_width()))


def _overview(tables: tuple[Framework, ...]) -> Page:
    return _catalogue_json(tables), lambda width: catalogue.overview(tables, width)


def _detail(bound: BoundRecipe) -> Page:
    return {"recipe": _bound_json(bound)}, lambda width: catalogue.detail(bound, width)


def _configured(named: BoundRecipe | None, like: str | None, emit: str | None) -> Page:
    """A recipe that is read from a framework's configuration, or written as its lines, or both."""
    from iscope.cli import configs

    bound = named if like is None else configs.read(like)
    if bound is None:
        raise UsageError("--emit takes one recipe: a NAME with options or without, or --like FRAMEWORK:FILE.")
    if emit is None:
        return _detail(bound)
    document, lines = configs.written(bound, emit)
    return document, lambda _: [plain.Line(line) for line in lines]


def _difference(one: BoundRecipe, other: BoundRecipe) -> Page:
    from iscope.recipes.difference import difference

    found = difference(one, other)
    return {"difference": _difference_json(found)}, lambda width: catalogue.side_by_side(found, width)


def _difference_json(found: Difference) -> dict[str, Any]:
    def rows(listed: tuple[tuple[str, str, str], ...], key: str) -> list[dict[str, Any]]:
        return [{key: what, "values": values} for what, *values in listed]

    return {
        "recipes": list(found.specs),
        "rules": rows(found.rules, "what"),
        "options": rows(found.options, "name"),
        "formulas": list(found.formulas),
        "sources": list(found.sources),
    }


def _catalogue_json(tables: tuple[Framework, ...]) -> dict[str, Any]:
    return {
        "frameworks": [
            {
                "name": table.name,
                "title": table.title,
                "version": table.version or None,
                "loss_options": [_option_json(option) for option in table.loss_options],
                "recipes": [_row_json(row) for row in table.recipes],
                "not_replayed": [{"name": left, "reason": reason} for left, reason in table.not_replayed],
            }
            for table in tables
        ]
    }


def _bound_json(bound: BoundRecipe) -> dict[str, Any]:
    table = framework(bound.framework)
    return _row_json(bound.row) | {
        "framework": bound.framework,
        "spec": bound.spec,
        "values": bound.options,
        "unused": list(bound.unused),
        "loss_options": [_option_json(option) for option in table.loss_options],
        "loss_constraints": [describe(constraint) for constraint in table.constraints],
    }


def _row_json(row: Recipe) -> dict[str, Any]:
    return {
        "name": row.name,
        "summary": row.summary,
        "formula": row.formula,
        "same_as": row.base or None,
        "source": row.source,
        "options": [_option_json(option) for option in row.options],
        "constraints": [describe(constraint) for constraint in row.constraints],
        "notes": list(row.notes),
    }


def _option_json(option: Option) -> dict[str, Any]:
    return {
        "name": option.name,
        "short": option.short,
        "aliases": list(option.aliases),
        "kind": option.kind,
        "choices": list(option.choices),
        "nullable": option.nullable,
        "default": option.default,
        "doc": option.doc,
    }
