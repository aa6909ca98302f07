"""The commands by name: a table of strings, so that none is imported but the one that runs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from iscope.cli.help import GroupedCommand

# Name, where its function is, one line about it.
COMMANDS = {
    "analyze": ("iscope.cli.analyze:analyze", "What a dump shows, and what corrections do to it."),
    "compare": ("iscope.cli.compare:compare", "Which correction at which bounds; two dumps side by side."),
    "check": ("iscope.cli.check:check", "Gates for CI: exit 1 where a figure is beyond its limit."),
    "replay": ("iscope.cli.replay:replay", "What one correction does to every token, as Parquet."),
    "inspect": ("iscope.cli.inspect:inspect", "What is in a dump, and what is wrong with it."),
    "map": ("iscope.cli.map:map_", "One shard of a dump measured, for any scheduler."),
    "merge": ("iscope.cli.merge:merge", "The report of a dump from its shards' parts."),
    "report": ("iscope.cli.report:report", "A saved report in any format, without its dump."),
    "explain": ("iscope.cli.explain:explain", "A finding: what it means, its causes, what to do."),
    "convert": ("iscope.cli.convert:convert", "Any framework's dump as Parquet, sides joined."),
    "recipes": ("iscope.cli.recipes:recipes", "The corrections iscope can replay, or one in full."),
}
# Alone, without arguments, it needs none of what parses them, which takes longer to import than the catalogue.
CATALOGUE = "recipes"


class Commands(TyperGroup):
    """A group whose commands are names with a line of help until one of them is to run or to be completed."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the command itself and the rest of the arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else load(name), rest


def register(app: typer.Typer) -> None:
    """Add every command's name and its line to an app of the class ``Commands``."""
    for name, (_, line) in COMMANDS.items():
        app.command(name, short_help=line)(_named)


def _named() -> None:
    """Stand for a command in the list of them."""


def function(name: str) -> Callable[..., None]:
    """Import and return what a command runs."""
    module, _, attribute = COMMANDS[name][0].partition(":")
    found: Callable[..., None] = getattr(importlib.import_module(module), attribute)
    return found


def load(name: str) -> Any:
    """Import a command and return it, with its options."""
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.command(name, cls=GroupedCommand)(function(name))
    return typer.main.get_command(alone)
