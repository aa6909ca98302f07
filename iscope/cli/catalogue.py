"""The catalogue of recipes as text: an overview, one recipe in full, and two of them side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from iscope.recipes import describe, framework
from iscope.recipes.model import BoundRecipe, Framework, Option
from iscope.recipes.options import accepted_names, kind_in_words, spell
from iscope.render.plain import Line, columns, facts, paragraph

if TYPE_CHECKING:
    from iscope.recipes.difference import Difference

# Narrower than this, a row of three columns turns into a column of one word per line.
_NARROW = 72
_GAP = 2


def overview(tables: Sequence[Framework], width: int) -> Iterator[Line]:
    """Yield the recipes of these frameworks: name, options with defaults, one line each.

    A single framework is followed by what of it is not replayed, and why.

    Args:
        tables: the frameworks, in order.
        width: columns of the terminal; below 72 each recipe is a block of lines.
    """
    listed = [[(row.name, _defaults(row.options), row.summary) for row in table.recipes] for table in tables]
    name_width = max((len(name) for rows in listed for name, _, _ in rows), default=0)
    option_width = min(max((len(options) for rows in listed for _, options, _ in rows), default=0), width // 3)
    rest = width - name_width - option_width - 2 * _GAP
    for table, rows in zip(tables, listed, strict=True):
        yield from paragraph(_heading(table), width, bold=True)
        if table.loss_options:
            yield from paragraph(f"loss options of each: {_defaults(table.loss_options)}", width)
        for name, options, summary in rows:
            if width < _NARROW or rest < _NARROW // 4:
                yield from paragraph(f"{name}  {options}", width)
                yield from paragraph(summary, width, 4)
            else:
                yield from columns([(name, name_width), (options, option_width), (summary, rest)], gap=_GAP)
        yield Line()
    if len(tables) == 1:
        yield from _not_replayed(tables[0], width)
    yield from paragraph(
        "'iscope recipes NAME' shows the formula, the options in full, the source and the traps.", width
    )


def _not_replayed(table: Framework, width: int) -> Iterator[Line]:
    if table.not_replayed:
        yield Line("not replayed", bold=True)
        yield from facts(list(table.not_replayed), width, 2)
        yield Line()


def detail(bound: BoundRecipe, width: int) -> Iterator[Line]:
    """Yield one recipe in full, with the values of its options.

    Args:
        bound: the recipe, its options bound.
        width: columns of the terminal.
    """
    row, table = bound.row, framework(bound.framework)
    yield from paragraph(row.name, width, bold=True)
    if row.summary:
        yield from paragraph(row.summary, width)
    yield Line()
    known = [("spec", bound.spec), ("same as", row.base), ("formula", row.formula), ("source", row.source)]
    requires = [("requires", describe(constraint)) for constraint in (*row.constraints, *table.constraints)]
    yield from facts([*((label, text) for label, text in known if text), *requires], width)
    for title, options in (("options", row.options), ("loss options", table.loss_options)):
        if options:
            yield Line()
            yield Line(title, bold=True)
        for option in options:
            yield from _option(option, bound, width)
    if row.notes:
        yield Line()
        yield Line("worth knowing", bold=True)
        yield from facts([("-", note) for note in row.notes], width, 2)


def _option(option: Option, bound: BoundRecipe, width: int) -> Iterator[Line]:
    value = spell(bound.options[option.short])
    default = spell(dict(bound.row.defaults).get(option.short, option.default))
    said = f"{option.short} = {value}" + (" (the default)" if value == default else f" (default {default})")
    if option.short in bound.unused:
        said += f"; not used with loss_type={bound.options.get('loss_type')}"
    yield from paragraph(said, width, 2)
    others = ", ".join(name for name in accepted_names(option) if name not in (option.short, option.name))
    known = [("name", option.name), ("also", others), ("takes", kind_in_words(option)), ("", option.doc)]
    yield from facts([(label, text) for label, text in known if text and text != option.short], width, 4)


def side_by_side(found: Difference, width: int) -> Iterator[Line]:
    """Yield what differs between two recipes, one column each.

    Args:
        found: the difference.
        width: columns of the terminal.
    """
    if not found.rules:
        yield from paragraph("They do the same: weight, filters and loss are equal with these options.", width)
        yield Line()
    rows = [("", *found.specs), *found.rules, *(("formula", *found.formulas),), *(("source", *found.sources),)]
    yield from _three(rows, width)
    if found.options:
        yield Line()
        yield Line("options", bold=True)
        yield from _three([(name, *values) for name, *values in found.options], width)


def _three(rows: Sequence[Sequence[str]], width: int) -> Iterator[Line]:
    label_width = min(max(len(row[0]) for row in rows), width // 4)
    each = (width - label_width - 2 * _GAP) // 2
    for label, one, other in rows:
        yield from columns([(label, label_width), (one, each), (other, each)], gap=_GAP)


def _heading(table: Framework) -> str:
    return f"{table.title} {table.version}".strip()


def _defaults(options: Sequence[Option]) -> str:
    return ", ".join(f"{option.short}={spell(option.default)}" for option in options)
