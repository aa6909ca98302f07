"""Write docs/recipes.md and docs/findings.md from the tables that iscope replays and explains.

Run ``python -m docs.generate`` from the root of the repository after a change to ``iscope/recipes/`` or to the words in
``iscope/analysis/findings/``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from iscope.analysis.findings import kinds
from iscope.analysis.findings.kind import Kind
from iscope.analysis.levels import REFERENCE
from iscope.recipes import describe, frameworks
from iscope.recipes.model import Framework, Option, Recipe
from iscope.recipes.options import accepted_names, kind_in_words, spell

PAGE = Path(__file__).with_name("recipes.md")
FINDINGS = Path(__file__).with_name("findings.md")

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


_FINDINGS_HEAD = """\
# Findings

<!-- Written by docs/generate.py: edit the modules in iscope/analysis/findings/ and run it again. -->

What a dump can show, by code. `iscope analyze` and `iscope inspect` report findings, `iscope explain CODE` prints one
of these sections. An error means that figures of this dump mean nothing until it is mended, a warning that the run is
not healthy; information is worth knowing and no fault. A finding about a recipe or its bounds is above information
only for a recipe that you named. A healthy dump has none above information; if yours has one, please report it as a
defect.

In the texts d = trainer logprob - inference logprob of a token, rho = exp(d), q = exp(inference logprob), S and G are
the sum and the mean of d over a rollout's scored tokens, and k3 = mean(exp(d) - 1 - d) in nats per token. Tests on
single tokens look at a fixed sample of whole groups, about a million tokens, the same for any order of the dump."""


def findings_page() -> str:
    """Return the text of the page of findings."""
    parts = [_FINDINGS_HEAD, "\n".join(_levels())]
    for kind in kinds():
        parts.extend(_finding(kind))
    return "\n\n".join(parts) + "\n"


def _levels() -> Iterator[str]:
    yield "The verdict places k3 among published levels of healthy runs; `--healthy-k3` sets yours.\n"
    yield "| stack | healthy up to k3 | published | source |"
    yield "|---|---|---|---|"
    for level in REFERENCE:
        yield f"| {level.stack} | {level.k3:g} | {_cell(level.text)} | {_cell(level.source)} |"


def _finding(kind: Kind) -> Iterator[str]:
    yield f"## {kind.code} {_escape(kind.title)}"
    yield _escape(kind.meaning)
    yield "Usual causes:"
    yield "\n".join(f"- {_escape(cause)}" for cause in kind.consistent_with)
    yield f"No evidence of: {_escape(kind.no_evidence_of)}."
    yield f"What to do: {_escape(kind.action)}."
    yield f"How it is found: {_escape(kind.method)}"
    yield f"Sources: {_escape('; '.join(kind.sources))}."


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    FINDINGS.write_text(findings_page(), encoding="utf-8")
