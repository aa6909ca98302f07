"""Ledger -> Report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypedDict, TypeVar

import polars as pl

from iscope.analysis.breakdown import Breakdown, several
from iscope.analysis.distributions import distributions
from iscope.analysis.figures import mismatch_figures, recipe_figures
from iscope.analysis.figures.lag import versions_differ
from iscope.analysis.findings import find
from iscope.analysis.findings.evidence import Evidence
from iscope.analysis.findings.tokens import Tokens
from iscope.analysis.frameworks import framework_metrics
from iscope.analysis.intervals import Closing
from iscope.analysis.levels import Levels
from iscope.analysis.looked import Looked
from iscope.analysis.meanwhile import Meanwhile, meanwhile
from iscope.analysis.onset import onset
from iscope.analysis.recipe_rows import RecipeRows, recipe_rows
from iscope.analysis.rows import Rows, scored_rows, trained_rows
from iscope.analysis.sampling import sampling
from iscope.analysis.verdict import verdict
from iscope.analysis.worst import worst
from iscope.dump.supplied import Supplied
from iscope.engines.batch_scope import in_words
from iscope.ledger.ledger import Ledger
from iscope.ledger.rows import LedgerRows
from iscope.model import Coverage, Figures, RecipeReport, Report
from iscope.recipes.bounds import negative_weights
from iscope.recipes.model import BoundRecipe
from iscope.replay.usable import KINDS

T = TypeVar("T")

# Recipes whose intervals are found at once: figures of one base share their sums.
_TOGETHER = 8


def build_report(
    ledger: Ledger,
    *,
    by: Sequence[str] = (),
    files: int = 0,
    excluded: dict[str, int] | None = None,
    notes: dict[str, int] | None = None,
    assumptions: Sequence[str] = (),
    provenance: dict[str, Any] | None = None,
    levels: Levels | None = None,
    supplied: Sequence[Supplied] = (),
    shown: Sequence[int] | None = None,
) -> Report:
    """Compute every figure of a report from a ledger.

    Args:
        ledger: what was measured.
        by: keys to break the figures down by, see ``breakdown``; step and lag are added where there are several.
        files: files that were read.
        excluded: rollouts that were left out before they could be measured, by reason.
        notes: counts worth saying, by what they count.
        assumptions: what reading the dump had to assume.
        provenance: versions, files and options.
        levels: how far apart healthy policies are; None is a dense model in bf16.
        supplied: ratios that the dump brings along, to be checked.
        shown: which of the plan's recipes are in the report, by index; None is all.
    """
    levels = levels or Levels()
    rows = scored_rows(ledger)
    coverage = _coverage(ledger, rows, files, excluded or {}, notes or {})
    shown = range(len(ledger.plan.recipes)) if shown is None else shown
    replayed = [recipe_rows(ledger, rows, index) for index in shown]
    able = [recipe for recipe in replayed if recipe.replayed]
    keys = dict.fromkeys([*by, *several(rows)])
    trained = trained_rows(ledger)
    with meanwhile(in_turn=not ledger.rows.in_memory) as beside:
        looking = beside.make(
            partial(Looked.at, ledger.sample, scored=rows.rollouts > 0, steps="step" in keys), when_due=True
        )
        cuts = {key: Breakdown(rows, key) for key in keys}
        comparing = _closing(mismatch_figures(rows), beside)
        breaking_down = _closing({key: cut.figures() for key, cut in cuts.items()}, beside)
        changing = [
            _closing([_changed(recipe, cuts) for recipe in able[first : first + _TOGETHER]], beside)
            for first in range(0, len(able), _TOGETHER)
        ]
        metrics = {recipe.index: framework_metrics(ledger, recipe.index, trained) for recipe in able}
        looked, mismatch, changed = looking(), comparing(), [one for some in changing for one in some()]
        figures = {recipe.index: one["figures"] for recipe, one in zip(able, changed, strict=True)}
        recipes = [_recipe(one, figures.get(one.index), metrics.get(one.index)) for one in replayed]
        tried = [report for report, recipe in zip(recipes, replayed, strict=True) if recipe.replayed]
        findings = find(Evidence(rows, looked.tokens, coverage, mismatch, able, tried, supplied, levels), looked.probed)
        spread = distributions(rows, looked.positions, [recipe.recipe for recipe in able])
        furthest = worst(rows, Tokens.of(ledger.furthest), looked.furthest, looked.tokens.size)
        breakdowns = {
            key: _with_recipes(cuts[key], rows_of_key, [one["by"][key] for one in changed])
            for key, rows_of_key in breaking_down().items()
        }
    parts = {
        "onset": onset(rows, looked.gaps, cuts.get("step"), breakdowns.get("step", ()), recipes),
        "distributions": spread,
        "worst": furthest,
        "sampling": sampling(ledger, looked.tokens),
    }
    return Report(
        verdict=verdict(mismatch, coverage, findings, levels),
        coverage=coverage,
        assumptions=[*assumptions, *_assumptions(ledger, rows)],
        mismatch=mismatch,
        recipes=recipes,
        breakdowns=breakdowns,
        findings=findings,
        provenance=provenance or {},
        parts={name: part for name, part in parts.items() if part is not None},
    )


def _closing(tree: T, beside: Meanwhile) -> Callable[[], T]:
    """Begin to find the intervals of a tree of figures; what is returned waits for them.

    Nothing else is done beside: threads that both need the interpreter, for little at a time, take longer than one.
    """
    closing = Closing(tree)
    finding = beside.make(closing.find)

    def tree_with_intervals() -> T:
        finding()
        return closing.tree()

    return tree_with_intervals


class _Changed(TypedDict):
    """What a recipe did to all rollouts, and to those of each value of each key."""

    figures: Figures
    by: dict[str, list[Figures]]


def _changed(recipe: RecipeRows, cuts: Mapping[str, Breakdown]) -> _Changed:
    """Find out one after the other, as long as the recipe's gradients are at hand; intervals are to come."""
    return _Changed(figures=recipe_figures(recipe), by={key: cut.of_recipe(recipe) for key, cut in cuts.items()})


def _with_recipes(cut: Breakdown, rows: list[Figures], recipes: Sequence[list[Figures]]) -> list[Figures]:
    """The rows of a breakdown with what each recipe did to their rollouts; recipes have no part in tokens by q."""
    if cut.parts is None:
        return rows
    return [{**row, "recipes": [*entries]} for row, *entries in zip(rows, *recipes, strict=True)]


def _recipe(rows: RecipeRows, figures: Figures | None, framework: Figures | None) -> RecipeReport:
    """The report of a recipe; it has neither where it could not be replayed."""
    recipe = rows.recipe
    return RecipeReport(
        name=recipe.name,
        spec=recipe.spec,
        options=recipe.options,
        level=str(recipe.weight.level),
        unit="tokens" if rows.per_token else "rollouts",
        named=recipe.named,
        like=recipe.like,
        fitted=recipe.fitted,
        figures=figures or {},
        framework=framework or {},
        why=_why_not(recipe) if figures is None else None,
    )


def _why_not(recipe: BoundRecipe) -> str:
    return f"it needs {' and '.join(recipe.needs)}, which the dump does not have"


def _coverage(ledger: Ledger, rows: Rows, files: int, excluded: dict[str, int], notes: dict[str, int]) -> Coverage:
    every = ledger.rows
    kinds = {kind: sum(side.get(kind, 0) for side in ledger.unscored.values()) for kind in KINDS}
    rounded = {"positive_logprobs_taken_as_rounding": ledger.rounded_positive} if ledger.rounded_positive else {}
    return Coverage(
        files=files,
        rollouts_read=every.height + sum(excluded.values()),
        rollouts_analyzed=rows.rollouts,
        rollouts_empty=every.height - rows.rollouts,
        rollouts_excluded=dict(sorted(excluded.items())),
        tokens_read=_total(every, "tokens"),
        tokens_loss=_total(every, "loss_tokens"),
        tokens_scored=_total(every, "usable_tokens"),
        tokens_unscored=kinds,
        tokens_unscored_by_side=ledger.unscored,
        notes=notes | rounded,
    )


def _total(rows: LedgerRows, column: str) -> int:
    return int(rows[column].cast(pl.Int64).sum())


def _assumptions(ledger: Ledger, rows: Rows) -> list[str]:
    said = _batches(ledger) if ledger.plan.recipes else []
    unscored = sum(count for side in ledger.unscored.values() for count in side.values())
    if unscored and ledger.plan.unscored == "neutral":
        said.append(f"{unscored:,} loss tokens with an unusable logprob count as ratio 1 in every figure.")
    differ = int(versions_differ(rows)[0].sum())
    if differ:
        said.append(
            f"in {differ:,} rollouts trainer_version differs from policy_version: the trainer column is the "
            "CURRENT policy there, and its mismatch is engine + lag."
        )
    if any(rows.resolve(recipe.weight.pair) != recipe.weight.pair for recipe in ledger.plan.recipes):
        said.append("on-policy assumed: no current logprobs, the trainer's stand in for them.")
    said += [
        f"{recipe.spec}: {', '.join(recipe.fitted)} FITTED to this very dump, so that each rule keeps at least "
        f"{ledger.plan.fit:g} of its tokens or rollouts; on other dumps they keep less or more."
        for recipe in ledger.plan.recipes
        if recipe.fitted
    ]
    said += [negative_weights(recipe) for recipe in ledger.plan.recipes if recipe.weight.sign < 0]
    unused = {recipe.spec: recipe.unused for recipe in ledger.plan.recipes if recipe.unused}
    return said + [f"{spec}: its loss does not use {', '.join(names)}." for spec, names in unused.items()]


def _batches(ledger: Ledger) -> list[str]:
    said = in_words(ledger.plan.batch)
    if ledger.plan.batch == "all":
        return [f"{said} (--batch)."]
    return [
        f"{said} for normalisers, batch-normalised weights and sorts; frameworks' own metrics are over the whole dump, "
        "where trainers average over their batches."
    ]
