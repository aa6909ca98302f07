"""The recipe table: what each recipe does to the dump, one row per recipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.text import Text

from iscope.model import Node, RecipeReport, Report
from iscope.render.nodes import at, figure
from iscope.render.numbers import count, counted, number, percent, ratio
from iscope.render.strings import clean, elide
from iscope.render.terminal.labels import label
from iscope.render.terminal.page import wrap
from iscope.render.terminal.table import Cell, Column, Form, Label, cell, table

Make = Callable[[RecipeReport], Cell]
_SPEC_LIMIT = 400


@dataclass(frozen=True)
class _Column:
    """A column of the table before it meets the recipes."""

    head: tuple[str, ...]
    make: Make
    legend: str | None = None
    extra: bool = False


def _read(*path: str, form: Form, interval: bool = False) -> Make:
    return lambda recipe: cell(at(recipe.figures, *path), form, interval=interval)


def _interval(*path: str, form: Form) -> Make:
    """The 95% interval of a figure alone."""

    def make(recipe: RecipeReport) -> Cell:
        found = figure(at(recipe.figures, *path))
        if found is None or found.low is None or found.high is None:
            return Cell()
        return Cell(f"[{form(found.low)},{form(found.high)}]")

    return make


def _with_share(unit: str) -> Make:
    """Effective sample size of the weights over a unit, and its share."""

    def make(recipe: RecipeReport) -> Cell:
        found, part = (
            cell(at(recipe.figures, "ess", unit), number),
            figure(at(recipe.figures, "ess", f"{unit}_fraction")),
        )
        if found.why or not found.text or part is None or part.value is None:
            return found
        return Cell(f"{found.text} ({percent(part.value)})")

    return make


def _level(recipe: RecipeReport) -> Cell:
    return Cell(elide(clean(recipe.level), 12))


def _effective(recipe: RecipeReport) -> Cell:
    node = at(recipe.figures, "effective_batch_size")
    found, ends = cell(node, number), _interval("effective_batch_size", form=_short)(recipe).text
    base = figure(at(node, "base")) if isinstance(node, dict) else None
    if found.why or not found.text or base is None or base.value is None:
        return found
    return Cell(f"{found.text}{' ' if ends else ''}{ends}/{number(base.value)}")


def _short(value: float) -> str:
    return number(value, 2)


def _groups(recipe: RecipeReport) -> Cell:
    kept, total = (cell(at(recipe.figures, "groups_with_both_signs", part), count) for part in ("kept", "total"))
    return kept if kept.why or not total.text else Cell(f"{kept.text}/{total.text}")


def _kept(part: str) -> Make:
    def make(recipe: RecipeReport) -> Cell:
        if "gradient_left" not in recipe.figures:  # a rollout of weight 1e-47 counts as kept: misleading alone
            return Cell()
        return cell(at(recipe.figures, "kept", part), count)

    return make


_CHANGED = "modif(ied): tokens, rollouts with one, that the bounds cut or reject"
_MASKED = "masked: rejected, weight 0 (roll: no token kept); trunc: cut or raised to a bound (roll: any token)"
_SIGNS = "of A>0, A<0: the same over the scored tokens with this sign of the advantage"
_BY_SIGN = ("masked", "by_sign")
_KEPT = "kept: weight other than 0, to be read with the gradient left"
_GRADIENT = "grad(ient left): sum of |c|(1-p) over that at weight 1 with all kept"
_GROUPS = "groups: with both signs of gradient left, of those that had"
_PRODUCT = "product left>2x: share of the kept gradient weighted off exp(S) by over 2x"
_KL = "k3: mean(exp(d)-1-d) of the row's policy pair over kept / masked tokens, nats per token"
_KL_ROLLOUTS = "by roll: the same, mean over rollouts"
_MEAN = "weight mean, max: of the applied weight over tokens (token weights) or rollouts, masked = 0"
_EFFECTIVE = (
    "effect(ive): (sum g)^2 / sum g^2 [95%], g = a rollout's |c|(1-p) (its weight without advantages), / at weight 1"
)
_ESS_ROLLOUTS = "ESS rollouts: (sum W)^2 / sum W^2, W = mean applied weight of a rollout, and its share of the rollouts"
_ESS_TOKENS = "ESS tokens: (sum w)^2 / sum w^2 of the applied weights of tokens, and its share of the scored tokens"
_COLUMNS = (
    _Column(("modif", "tok"), _read("modified", "token_fraction", form=percent), _CHANGED),
    _Column(("modif", "roll"), _read("modified", "rollout_fraction", form=percent), _CHANGED),
    _Column(("ratio", "level"), _level, extra=True),
    _Column(("masked", "tok"), _read("masked", "token_fraction", form=percent), _MASKED, extra=True),
    _Column(("masked", "roll"), _read("masked", "rollout_fraction", form=percent), _MASKED, extra=True),
    _Column(("masked tok", "of A>0"), _read(*_BY_SIGN, "positive", "token_fraction", form=percent), _SIGNS, extra=True),
    _Column(("masked tok", "of A<0"), _read(*_BY_SIGN, "negative", "token_fraction", form=percent), _SIGNS, extra=True),
    _Column(("trunc", "tok"), _read("truncated", "token_fraction", form=percent), _MASKED, extra=True),
    _Column(("trunc", "roll"), _read("truncated", "rollout_fraction", form=percent), _MASKED, extra=True),
    _Column(("grad", "all"), _read("gradient_left", "all", form=number), _GRADIENT),
    _Column(("grad all", "95%"), _interval("gradient_left", "all", form=number), _GRADIENT, extra=True),
    _Column(("grad", "A>0"), _read("gradient_left", "positive", form=number), _GRADIENT),
    _Column(("grad", "A<0"), _read("gradient_left", "negative", form=number), _GRADIENT),
    _Column(("grad", "survivors"), _read("gradient_left", "survivors", form=number), _GRADIENT, extra=True),
    _Column(("kept", "tok"), _kept("tokens"), _KEPT, extra=True),
    _Column(("kept", "roll"), _kept("rollouts"), _KEPT, extra=True),
    _Column(("effect", "rollouts"), _effective, _EFFECTIVE),
    _Column(("groups", "+and-"), _groups, _GROUPS),
    _Column(("product", "left>2x"), _read("product_left", form=percent), _PRODUCT),
    _Column(("weight", "mean"), _read("applied", "mean", form=ratio), _MEAN, extra=True),
    _Column(("weight", "max"), _read("applied", "max", form=ratio), _MEAN, extra=True),
    _Column(("ESS", "rollouts"), _with_share("rollout"), _ESS_ROLLOUTS, extra=True),
    _Column(("ESS", "tokens"), _with_share("token"), _ESS_TOKENS, extra=True),
    _Column(("k3", "kept"), _read("unmasked_mismatch_kl", "token", form=number), _KL, extra=True),
    _Column(("k3", "masked"), _read("masked_mismatch_kl", "token", form=number), _KL, extra=True),
    _Column(
        ("k3 kept", "by roll"), _read("unmasked_mismatch_kl", "rollout_mean", form=number), _KL_ROLLOUTS, extra=True
    ),
    _Column(
        ("k3 masked", "by roll"), _read("masked_mismatch_kl", "rollout_mean", form=number), _KL_ROLLOUTS, extra=True
    ),
)
_FILTER_COLUMNS = (
    ("low", ("tokens", "< low")),
    ("high", ("tokens", "> high")),
    ("rollouts_low", ("rollouts", "< low")),
    ("rollouts_high", ("rollouts", "> high")),
    ("rollouts", ("rollouts", "either")),
)


def recipes(report: Report, width: int, *, verbose: bool) -> list[Text]:
    """Return the table of recipes and, for those the user named or on request, what each filter rejected."""
    if not report.recipes:
        return []
    coverage = report.coverage
    tokens, rollouts = coverage.tokens_scored, coverage.rollouts_analyzed
    title = f"RECIPES over {counted(tokens, 'scored token')} of {counted(rollouts, 'rollout')}"
    named = any(recipe.named for recipe in report.recipes)
    lines = wrap(title + ("; > is yours" if named else ""), width, 2)
    lines[0].stylize("bold", 0, len("RECIPES"))
    labels = [Label(label(recipe), ">" if recipe.named else " ") for recipe in report.recipes]
    columns = setting_columns(report.recipes, verbose=verbose)
    return lines + table("RECIPE, bounds", labels, columns, width) + _filters(report, width, verbose=verbose)


def setting_columns(recipes: Sequence[RecipeReport], *, verbose: bool) -> list[Column]:
    """Return the columns of the table of recipes, a cell for each; the headline ones unless ``verbose``."""
    return [
        Column(column.head, [column.make(recipe) for recipe in recipes], column.legend)
        for column in _COLUMNS
        if verbose or not column.extra
    ]


def spec(recipe: RecipeReport) -> str:
    """Return the full form of a recipe, fit to print."""
    return elide(clean(recipe.spec), _SPEC_LIMIT)


def _filters(report: Report, width: int, *, verbose: bool) -> list[Text]:
    rows = [
        (recipe, entry)
        for recipe in report.recipes
        if verbose or recipe.named
        for entry in (*_entries(at(recipe.figures, "masked", "by_filter")), _truncated(recipe))
        if entry
    ]
    if not rows:
        return []
    labels = [
        Label(f"{label(recipe)} {elide(clean(entry.get('name', '?')), 60)}", ">" if recipe.named else " ")
        for recipe, entry in rows
    ]
    columns = [Column(head, [cell(entry.get(key), count) for _, entry in rows]) for key, head in _FILTER_COLUMNS]
    return table("RULE, scored tokens", labels, columns, width)


def _entries(node: Node) -> list[dict[str, Node]]:
    return [entry for entry in node if isinstance(entry, dict)] if isinstance(node, list) else []


def _truncated(recipe: RecipeReport) -> dict[str, Node]:
    group = at(recipe.figures, "truncated")
    hit = isinstance(group, dict) and any(key in group for key in ("low", "high")) and bool(group.get("tokens"))
    return {**group, "name": "truncation"} if hit and isinstance(group, dict) else {}
