"""compare(): many settings of recipes on one dump from one pass, and two dumps side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from iscope.analysis.compare.against import Side
from iscope.analysis.compare.against import against as hold_against
from iscope.analysis.compare.build import Choice, build_comparison
from iscope.analysis.levels import Levels
from iscope.analysis.rows import scored_rows
from iscope.analysis.shown import with_tokens
from iscope.api import Path, make_plan, measure_dump, report_of, sides_of, without_reference_terms
from iscope.dump import Dump, Sides, Source, open_dump
from iscope.dump.identity import identities
from iscope.dump.lookup import Lookup
from iscope.engines.device import device_of
from iscope.errors import UsageError
from iscope.ledger.ledger import Ledger
from iscope.ledger.sweep.scheme import scheme_of
from iscope.model import Report
from iscope.recipes.configs.like import likes
from iscope.recipes.own.accept import AnyRecipe
from iscope.recipes.sweep import Settings, expand


def compare(
    *dump: Source,
    trainer: Any = (),
    vllm: Any = (),
    current: Any = (),
    ref: Any = (),
    on: str = "rollout_id",
    recipes: Sequence[AnyRecipe] | None = None,
    recipes_file: Path | Sequence[Path] = (),
    like: str | Sequence[str] = (),
    sweep: str | Sequence[str] = (),
    rank_by: str | None = None,
    require: str | Sequence[str] = (),
    emit: str | None = None,
    against: Any = (),
    against_trainer: Any = (),
    against_vllm: Any = (),
    against_current: Any = (),
    by: Sequence[str] = (),
    where: str | None = None,
    columns: Mapping[str, str] | None = None,
    from_format: str | None = None,
    precision: Literal["float32", "float64"] = "float32",
    unscored: Literal["exclude", "neutral"] = "exclude",
    strict: bool = False,
    batch: str | int = "all",
    healthy_k3: float | None = None,
    device: Literal["auto", "cpu", "cuda"] = "cpu",
    include_text: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Replay many settings of recipes over a dump in one pass, weigh them against each other, and advise.

    Args:
        *dump: as of ``analyze``, like all arguments that are not described here.
        trainer: in place of ``dump``, the trainer's side.
        vllm: in place of ``dump``, the inference engine's side.
        current: a side with the current policy's logprobs.
        ref: a side with the reference policy's logprobs.
        on: the column that pairs the sides.
        recipes: the recipes; None takes the default list of ``analyze``.
        recipes_file: TOML files of own recipes.
        like: frameworks' own configurations, whose recipes are compared too, as they are.
        sweep: ``OPTION=VALUE,...`` or ``OPTION=LOW:HIGH:COUNT[:log]``: the recipes that have the option are replayed at
            every value, and at every combination of several; a combination that a recipe refuses is left out and
            counted. Settings of a sweep have no intervals and are in no breakdown.
        rank_by: a figure to order the settings by, by its dotted name in a recipe's entry of the JSON report.
        require: conditions on figures, ``gradient_left.all >= 0.9``; settings that do not meet all of them are left
            out and counted.
        emit: the framework whose configuration lines the advice ends with; None is that of ``like``, else the advised
            setting's own.
        against: another dump to hold this one against: every figure side by side, what differs and how surely. A sweep
            and the advice are of one dump; with another one there are neither.
        against_trainer: in place of ``against``, the trainer's side of the other dump; a side that is not given is that
            of this dump.
        against_vllm: the inference engine's side of the other dump.
        against_current: its side with the current policy's logprobs.
        by: what to break the figures of the settings named without a sweep down by.
        where: SQL expression on columns of rollouts.
        columns: which column of the dump holds what.
        from_format: the framework whose format files have; None finds out for each.
        precision: the precision of the log-ratios and of every keep-decision.
        unscored: leave loss tokens with an unusable logprob out, or give them ratio 1.
        strict: make a bad row an error.
        batch: the scope of every normaliser, batch-normalised weight and sort.
        healthy_k3: k3 up to which the verdict calls this stack healthy, nats per token.
        device: where the tokens are measured.
        include_text: whether the report holds the text of the worst rollouts of the dump, not of the other one.
        progress: called with the rollouts and tokens of each batch that is done.

    Returns:
        The report of ``analyze`` with one entry per setting, and the parts ``settings``, ``front``, ``advice`` and
        ``staleness``; with another dump the part ``against`` instead.

    Raises:
        UsageError: an unknown recipe or option, a sweep of an option that no recipe has, a contradiction.
        DataError: a dump that cannot be used.
    """
    levels, choice, place = Levels.of(healthy_k3), Choice(rank_by, _listed(require), emit), device_of(device)
    choice.check()
    own, like_said = likes(like)
    plan = make_plan(
        recipes,
        recipes_file=recipes_file,
        like=own,
        by=by,
        precision=precision,
        unscored=unscored,
        batch=batch,
    )
    settings = expand(plan.recipes, _listed(sweep))
    here = {"trainer": trainer, "vllm": vllm, "current": current, "ref": ref}
    there = {"trainer": against_trainer, "vllm": against_vllm, "current": against_current}
    held = _given(against) or any(map(_given, there.values()))
    if held and (sweep or rank_by or require or emit):
        raise UsageError("with another dump (against) there are no sweep, rank_by, require and emit: they are of one.")
    opened = partial(
        open_dump,
        columns=columns,
        carry=plan.carried,
        precision=precision,
        strict=strict,
        where=where,
        from_format=from_format,
    )
    source = opened(dump, sides=sides_of(**here, on=on))
    lookup = Lookup.of(source, columns, text=include_text)
    plan, left = without_reference_terms(replace(plan, recipes=settings.recipes), source)
    said = [*like_said, *left, *_skipped(settings)]
    if held:
        sides = _other_sides(here, there, on) if any(map(_given, there.values())) else None
        other = opened(_sources(against), sides=sides)
        measure = partial(measure_dump, plan, progress=progress, device=place)
        first = _side(measure, source, by, said, levels, lookup)
        second = _side(measure, other, by, (), levels)
        provenance = first.report.provenance | {"against": second.report.provenance["files"]}
        parts = first.report.parts | {"against": hold_against(first, second)}
        return replace(first.report, provenance=provenance, parts=parts)
    scheme = scheme_of(plan.recipes, settings.swept, plan.batch)
    plan = replace(plan, recipes=scheme.recipes, families=scheme.families)
    measured = measure_dump(plan, source, progress, place)
    report = with_tokens(report_of(measured, source, by, said, levels, scheme.shown), measured, lookup)
    return build_comparison(report, measured, scheme, settings, choice)


def _side(
    measure: Callable[[Dump], Ledger],
    source: Dump,
    by: Sequence[str],
    said: Sequence[str],
    levels: Levels,
    lookup: Lookup | None = None,
) -> Side:
    """One of two dumps, measured; with a lookup its report says which the worst tokens are."""
    measured = measure(source)
    report = report_of(measured, source, by, said, levels)
    report = report if lookup is None else with_tokens(report, measured, lookup)
    return Side(report, scored_rows(measured), identities(source))


def _other_sides(here: Mapping[str, Any], there: Mapping[str, Any], on: str) -> Sides | None:
    """The sides of the other dump; one that is not given is that of this dump."""
    chosen = {side: there[side] if _given(there.get(side, ())) else given for side, given in here.items()}
    return sides_of(**chosen, on=on)


def _given(sources: Any) -> bool:
    return bool(sources) if isinstance(sources, str | list | tuple) else sources is not None


def _sources(given: Any) -> tuple[Source, ...]:
    return tuple(given) if isinstance(given, list | tuple) else (given,) if _given(given) else ()


def _skipped(settings: Settings) -> list[str]:
    return [
        f"{count:,} combinations of {name} were left out, which it refuses: {settings.why[name]}"
        for name, count in settings.skipped.items()
    ]


def _listed(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
