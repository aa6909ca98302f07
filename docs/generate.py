"""Write docs/recipes.md, the catalogue of every recipe, from the tables that iscope replays.

Run ``python -m docs.generate`` from the root of the repository after a change to ``iscope/recipes/``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from iscope.recipes import describe, frameworks
from iscope.recipes.model import Framework, Option, Recipe
from iscope.recipes.options import accepted_names, kind_in_words, spell

PAGE = Path(__file__).with_name("recipes.md")

_HEAD = """\
# Recipes

<!-- Written by docs/generate.py: edit the tables in iscope/recipes/ and run it again. -->

Every correction that iscope replays, with its formula, options, defaults and source. `iscope recipes NAME` prints one
of them; [names.md](names.md) says which name means what in which framework.

A recipe is written `NAME` or `NAME:option=value,...`. Options go by their short or their full name, the recipe's own by
position too; `none` is no bound. Every recipe of a framework takes the framework's loss options as well.

In the formulas trainer, inference, current and ref are logprobs of the sampled token in nats, A is the advantage, w_t
the weight that multiplies a token's loss."""


def page() -> str:
    """Return the text of the page."""
    tables = frameworks()
    parts = [_HEAD, "\n".join(_contents(tables))]
    for table in tables:
        parts.extend(_framework(table))
    return "\n\n".join(parts) + "\n"


def _contents(tables: Sequence[Framework]) -> Iterator[str]:
    yield "| framework | version | recipes |"
    yield "|---|---|---|"
    for table in tables:
        names = ", ".join(f"`{row.name}`" for row in table.recipes)
        yield f"| [{table.title}](#{_anchor(_title(table))}) | {_cell(table.version or '-')} | {names} |"


def _framework(table: Framework) -> Iterator[str]:
    yield f"## {_title(table)}"
    if table.loss_options:
        yield "Loss options, of every recipe here:"
        yield "\n".join(_options(table.loss_options))
    if table.constraints:
        yield _requires([describe(constraint) for constraint in table.constraints])
    for row in table.recipes:
        yield from _recipe(row)
    if table.not_replayed:
        yield f"### Not replayed: {table.title}"
        yield "\n".join(f"- `{name}`: {_escape(reason)}" for name, reason in table.not_replayed)


def _recipe(row: Recipe) -> Iterator[str]:
    yield f"### {row.name}"
    yield _escape(row.summary)
    yield f"```text\n{row.formula}\n```"
    if row.options:
        yield "\n".join(_options(row.options))
    if row.constraints:
        yield _requires([describe(constraint) for constraint in row.constraints])
    yield f"Source: {_escape(row.source)}"
    if row.notes:
        yield "\n".join(f"- {_escape(note)}" for note in row.notes)


def _options(options: Sequence[Option]) -> Iterator[str]:
    yield "| option | default | takes | meaning |"
    yield "|---|---|---|---|"
    for option in options:
        others = [name for name in accepted_names(option) if name != option.short]
        named = "<br>".join(f"`{name}`" for name in (option.short, *others))
        yield f"| {named} | `{spell(option.default)}` | {_cell(kind_in_words(option))} | {_cell(option.doc)} |"


def _requires(conditions: Sequence[str]) -> str:
    return f"Requires: {_escape('; '.join(conditions))}."


def _title(table: Framework) -> str:
    return f"{table.title} {table.version}".strip()


def _anchor(title: str) -> str:
    """The fragment that Markdown renderers make of a heading."""
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return kept.replace(" ", "-")


def _escape(text: str) -> str:
    """Text of the tables with what Markdown would take for markup escaped."""
    for mark in ("\\", "*", "_", "<", "[", "`"):
        text = text.replace(mark, "\\" + mark)
    return text


def _cell(text: str) -> str:
    return _escape(text).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
