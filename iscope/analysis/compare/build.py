"""A measured scheme -> the report of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from iscope.analysis.compare.advice import Advice, Case, advise, with_config
from iscope.analysis.compare.entries import swept_entries, uncorrected
from iscope.analysis.compare.front import front
from iscope.analysis.compare.narrow import narrow_bounds
from iscope.analysis.compare.require import check_paths, ranked, read_conditions
from iscope.analysis.compare.reward import off_policy_reward
from iscope.analysis.compare.staleness import staleness
from iscope.analysis.rows import scored_rows
from iscope.errors import UsageError
from iscope.ledger.ledger import Ledger
from iscope.ledger.sweep.families import rollout_part
from iscope.ledger.sweep.scheme import Scheme
from iscope.model import Figures, Report
from iscope.recipes.configs import TABLES, config_table
from iscope.recipes.configs.emit import emit
from iscope.recipes.model import BoundRecipe
from iscope.recipes.sweep import Settings

_OF_RECIPES = {"recipes": "spec", "named": "named", "like": "like"}


@dataclass(frozen=True)
class Choice:
    """Which settings to show, and how.

    Attributes:
        rank_by: the figure to order them by; None leaves them in the order given.
        require: conditions that those shown meet.
        emit: the framework whose configuration the advice ends with; None is that of the user's own, else the
            setting's.
    """

    rank_by: str | None = None
    require: Sequence[str] = ()
    emit: str | None = None

    def check(self) -> None:
        """Refuse what can be told to be wrong without a dump.

        Raises:
            UsageError: a malformed condition, or a framework whose configuration is not known.
        """
        read_conditions(self.require)
        if self.emit is not None:
            config_table(self.emit)


def build_comparison(report: Report, ledger: Ledger, scheme: Scheme, settings: Settings, choice: Choice) -> Report:
    """Complete the report of the settings named without a sweep to that of all of them.

    Args:
        report: the report of a ledger over the scheme's ``shown`` recipes.
        ledger: the ledger.
        scheme: how the settings were measured.
        settings: the settings.
        choice: which to show.

    Raises:
        UsageError: when a figure to require or to rank by is not one.
    """
    rows = scored_rows(ledger)
    swept, named = swept_entries(ledger, rows, scheme), iter(report.recipes)
    entries = [swept[number] if of_sweep else next(named) for number, of_sweep in enumerate(scheme.swept)]
    conditions = read_conditions(choice.require)
    check_paths([*(one.path for one in conditions), *([choice.rank_by] if choice.rank_by else [])], entries)
    met = [entry for entry in entries if all(condition.met(entry) for condition in conditions)]
    recipes = {recipe.spec: recipe for recipe in scheme.settings}
    provenance = report.provenance | {"plan": _plan(ledger, scheme)}
    case = Case(
        met,
        uncorrected(ledger, rows, scheme),
        report.findings,
        narrow=lambda entry: narrow_bounds(rows, recipes[entry.spec]),
        on_tokens=lambda entry: entry.unit == "tokens" and rollout_part(recipes[entry.spec]) is None,
    )
    advice = advise(case)
    config, notes = _config(advice, recipes, choice.emit)
    parts: Figures = {
        "settings": _settings(settings, scheme, len(met), choice) | {"off_policy_reward": off_policy_reward(rows)},
        "front": front(met),
        "advice": with_config(advice, config, notes),
        "staleness": staleness(rows, report.breakdowns.get("lag", ())),
    }
    shown = ranked(met, choice.rank_by)
    return replace(report, recipes=shown, provenance=provenance, parts=report.parts | parts)


def _plan(ledger: Ledger, scheme: Scheme) -> dict[str, Any]:
    """What identifies the plan, by the settings and not by the recipes that measure them."""
    own = ledger.plan.to_dict()
    return own | {name: [getattr(recipe, one) for recipe in scheme.settings] for name, one in _OF_RECIPES.items()}


def _settings(settings: Settings, scheme: Scheme, met: int, choice: Choice) -> Figures:
    skipped: Figures = {**settings.skipped}
    return {
        "tried": len(settings.recipes),
        "swept": sum(settings.swept),
        "replayed": scheme.replayed,
        "skipped": skipped,
        "require": [*choice.require],
        "met": met,
        "rank_by": choice.rank_by,
    }


def _config(
    advice: Advice, recipes: dict[str, BoundRecipe], wanted: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Lines of a configuration that make the advised setting, and notes on them."""
    if advice.spec is None:
        return (), ()
    recipe = recipes[advice.spec]
    own = [other.like.partition(":")[0] for other in recipes.values() if other.like]
    framework = wanted or (own[0] if own else recipe.framework)
    if framework not in TABLES:
        return (), (f"name a framework (--emit) for the lines of its configuration: {', '.join(TABLES)}",)
    try:
        emitted = emit(recipe, framework)
    except UsageError as refusal:
        return (), (str(refusal),)
    return emitted.lines, (f"lines of {framework}'s configuration", *emitted.notes)
