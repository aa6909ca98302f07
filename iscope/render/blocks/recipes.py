"""The recipe table: what each recipe does to the batch, one row per recipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iscope.model import RecipeReport, Report
from iscope.render.blocks.cells import Cell, Form, Head, Row, Table, cell, table
from iscope.render.blocks.own import advised_spec, own_specs
from iscope.render.nodes import at, entries, figure
from iscope.render.numbers import count, number, percent, ratio
from iscope.render.strings import clean, elide
from iscope.render.terminal.labels import label

Make = Callable[[RecipeReport], Cell]
_MOST = 1000
_SPEC_LIMIT = 400


@dataclass(frozen=True)
class _Column:
    head: Head
    make: Make
    extra: bool = False


def _read(*path: str, form: Form, interval: bool = True) -> Make:
    return lambda recipe: cell(at(recipe.figures, *path), form, interval=interval)


def _effective(recipe: RecipeReport) -> Cell:
    node = at(recipe.figures, "effective_batch_size")
    found = cell(node, number)
    base = figure(at(node, "base")) if isinstance(node, dict) else None
    if found.why or not found.text or base is None or base.value is None:
        return found
    return Cell(f"{found.text} of {number(base.value)}", found.small, found.sort)


def _groups(recipe: RecipeReport) -> Cell:
    kept, total = (cell(at(recipe.figures, "groups_with_both_signs", part), count) for part in ("kept", "total"))
    return kept if kept.why or not total.text else Cell(f"{kept.text} of {total.text}", "", kept.sort)


_GRADIENT, _CHANGED, _K3 = "gradient_left", "modified", "kept_k3"
_COLUMNS = (
    _Column(Head("modified, tokens", define=_CHANGED), _read("modified", "token_fraction", form=percent)),
    _Column(Head("modified, rollouts", define=_CHANGED), _read("modified", "rollout_fraction", form=percent)),
    _Column(Head("gradient left, all", define=_GRADIENT), _read("gradient_left", "all", form=number)),
    _Column(Head("gradient left, A>0", define=_GRADIENT), _read("gradient_left", "positive", form=number)),
    _Column(Head("gradient left, A<0", define=_GRADIENT), _read("gradient_left", "negative", form=number)),
    _Column(Head("effective rollouts, of the base's", define="effective_batch_size"), _effective),
    _Column(Head("groups, both signs", define="groups"), _groups),
    _Column(Head("product left", define="product_left"), _read("product_left", form=percent)),
    _Column(Head("k3 kept, nats/token", define=_K3), _read("unmasked_mismatch_kl", "token", form=number)),
    _Column(Head("level", words=True), lambda recipe: Cell(elide(clean(recipe.level), 12)), extra=True),
    _Column(Head("masked, tokens"), _read("masked", "token_fraction", form=percent), extra=True),
    _Column(Head("masked, rollouts"), _read("masked", "rollout_fraction", form=percent), extra=True),
    _Column(Head("truncated, tokens"), _read("truncated", "token_fraction", form=percent), extra=True),
    _Column(Head("truncated, rollouts"), _read("truncated", "rollout_fraction", form=percent), extra=True),
    _Column(
        Head("masked tokens of A>0"),
        _read("masked", "by_sign", "positive", "token_fraction", form=percent),
        extra=True,
    ),
    _Column(
        Head("masked tokens of A<0"),
        _read("masked", "by_sign", "negative", "token_fraction", form=percent),
        extra=True,
    ),
    _Column(Head("gradient left, survivors"), _read("gradient_left", "survivors", form=number), extra=True),
    _Column(Head("heaviest rollout's share"), _read("gradient_left", "heaviest_rollout", form=percent), extra=True),
    _Column(Head("applied weight, mean"), _read("applied", "mean", form=ratio), extra=True),
    _Column(Head("applied weight, max"), _read("applied", "max", form=ratio), extra=True),
    _Column(Head("weight ESS, rollouts"), _read("ess", "rollout", form=number), extra=True),
    _Column(Head("weight ESS, tokens"), _read("ess", "token", form=number), extra=True),
    _Column(Head("k3 masked, nats/token", define=_K3), _read("masked_mismatch_kl", "token", form=number), extra=True),
)


def recipe_tables(report: Report) -> list[Table]:
    """Return the headline table and the one with all else; none without recipes."""
    if not report.recipes:
        return []
    coverage = report.coverage
    over = f"Over {count(coverage.tokens_scored)} scored tokens of {count(coverage.rollouts_analyzed)} rollouts."
    return [
        _table(report, f"{over} Below a figure its 95% interval.", extra=False),
        _table(report, over, extra=True),
    ]


def _table(report: Report, caption: str, *, extra: bool) -> Table:
    front = {str(point.get("spec")) for point in entries(at(report.parts, "front"))}
    own, advised = own_specs(report), advised_spec(report)
    shown = report.recipes[:_MOST]
    columns = [column for column in _COLUMNS if column.extra is extra]
    rows = [
        Row(
            label(recipe),
            [column.make(recipe) for column in columns],
            "" if recipe.why is None else f"not replayed: {clean(recipe.why)}",
            "advised" if recipe.spec == advised else "yours" if recipe.spec in own else "",
            _css(recipe.spec in own or recipe.spec == advised, recipe.spec in front),
        )
        for recipe in shown
    ]
    hidden = len(report.recipes) - len(shown)
    notes = [f"{count(hidden)} more rows are in the JSON report."] if hidden else []
    return table(caption, "recipe, bounds", [column.head for column in columns], rows, notes)


def _css(marked: bool, on_front: bool) -> str:
    return " ".join([*(["yours"] if marked else []), *(["front"] if on_front else [])])
