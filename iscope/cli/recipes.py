"""``iscope recipes``: the catalogue of corrections, or one of them in full."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from iscope.cli import catalogue
from iscope.recipes import FRAMEWORKS, describe, framework, frameworks, parse
from iscope.recipes.model import BoundRecipe, Framework, Option, Recipe

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
    format_: Annotated[Literal["terminal", "json"], typer.Option("--format", help="How to print it.")] = "terminal",
) -> None:
    """List the corrections iscope can replay, or show one: formula, options, defaults, source."""
    bound = None if name is None or _is_framework(name) else parse(name)
    tables = (framework(name),) if name is not None and _is_framework(name) else frameworks()
    if format_ == "json":
        document = _catalogue_json(tables) if bound is None else {"recipe": _bound_json(bound)}
        sys.stdout.write(json.dumps({"schema": _SCHEMA} | document, indent=2, allow_nan=False) + "\n")
        return
    console = Console(markup=False, highlight=False, emoji=False)
    parts = catalogue.overview(tables, console.width) if bound is None else catalogue.detail(bound)
    for part in parts:
        console.print(part)


def _is_framework(name: str) -> bool:
    return name != "" and name in FRAMEWORKS


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
