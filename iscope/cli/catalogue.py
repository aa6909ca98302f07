"""The catalogue of recipes as text: an overview, and one recipe in full. Plain strings, never read as markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from iscope.recipes import describe, framework
from iscope.recipes.model import BoundRecipe, Framework, Option
from iscope.recipes.options import accepted_names, kind_in_words, spell

# Narrower than this, a row of three columns turns into a column of one word per line.
_NARROW = 72
_GAP = 2


def overview(tables: Sequence[Framework], width: int) -> Iterator[RenderableType]:
    """Yield the recipes of these frameworks: name, options with defaults, one line each.

    A single framework is followed by what of it is not replayed, and why.

    Args:
        tables: the frameworks, in order.
        width: columns of the terminal; below 72 each recipe is a block of lines.
    """
    rows = [row for table in tables for row in table.recipes]
    name_width = max(len(row.name) for row in rows)
    option_width = min(max(len(_defaults(row.options)) for row in rows), width // 3)
    for table in tables:
        yield Text(_heading(table), style="bold")
        if table.loss_options:
            yield Text(f"loss options of each: {_defaults(table.loss_options)}")
        if width < _NARROW:
            for row in table.recipes:
                yield Text(f"{row.name}  {_defaults(row.options)}".rstrip())
                yield Padding(Text(row.summary), (0, 0, 0, 4))
        else:
            grid = Table.grid(padding=(0, _GAP, 0, 0))
            grid.add_column(no_wrap=True, min_width=name_width)
            grid.add_column(width=option_width, overflow="fold")
            grid.add_column(overflow="fold")
            for row in table.recipes:
                grid.add_row(Text(row.name), Text(_defaults(row.options)), Text(row.summary))
            yield grid
        yield Text()
    if len(tables) == 1:
        yield from _not_replayed(tables[0])
    yield Text("'iscope recipes NAME' shows the formula, the options in full, the source and the traps.")


def _not_replayed(table: Framework) -> Iterator[RenderableType]:
    if table.not_replayed:
        yield Text("not replayed", style="bold")
        yield _facts(list(table.not_replayed), indent=2)
        yield Text()


def detail(bound: BoundRecipe) -> Iterator[RenderableType]:
    """Yield one recipe in full, with the values of its options.

    Args:
        bound: the recipe, its options bound.
    """
    row, table = bound.row, framework(bound.framework)
    yield Text(row.name, style="bold")
    yield Text(row.summary)
    yield Text()
    yield _facts(
        [
            ("spec", bound.spec),
            ("formula", row.formula),
            ("source", row.source),
            *(("requires", describe(constraint)) for constraint in (*row.constraints, *table.constraints)),
        ]
    )
    for title, options in (("options", row.options), ("loss options", table.loss_options)):
        if options:
            yield Text()
            yield Text(title, style="bold")
        for option in options:
            yield from _option(option, bound)
    if row.notes:
        yield Text()
        yield Text("worth knowing", style="bold")
        yield _facts([("-", note) for note in row.notes], indent=2)


def _option(option: Option, bound: BoundRecipe) -> Iterator[RenderableType]:
    value, default = spell(bound.options[option.short]), spell(option.default)
    said = f"{option.short} = {value}" + (" (the default)" if value == default else f" (default {default})")
    if option.short in bound.unused:
        said += f"; not used with loss_type={bound.options.get('loss_type')}"
    yield Padding(Text(said), (0, 0, 0, 2))
    others = ", ".join(name for name in accepted_names(option) if name not in (option.short, option.name))
    facts = [("name", option.name), ("also", others), ("takes", kind_in_words(option)), ("", option.doc)]
    yield _facts([(label, text) for label, text in facts if text and text != option.short], indent=4)


def _facts(facts: Sequence[tuple[str, str]], indent: int = 0) -> RenderableType:
    """Return labelled texts; a label that repeats the one above it is left out."""
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in facts:
        grid.add_row(Text(label), Text(text))
    return Padding(grid, (0, 0, 0, indent), expand=False)


def _heading(table: Framework) -> str:
    return f"{table.title} {table.version}".strip()


def _defaults(options: Sequence[Option]) -> str:
    return ", ".join(f"{option.short}={spell(option.default)}" for option in options)
