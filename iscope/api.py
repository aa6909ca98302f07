"""The whole program in a few readable functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from iscope import __version__
from iscope.analysis.breakdown import columns_of
from iscope.analysis.report import build_report
from iscope.dump import Dump, Sides, Source, open_dump
from iscope.dump.writer import output_path
from iscope.engines import local
from iscope.engines.cuts_pass import find_cuts
from iscope.engines.replay_pass import Replay, Task, replay_dump
from iscope.engines.scopes import batch_scope
from iscope.errors import DataError, UsageError, did_you_mean
from iscope.ledger import store
from iscope.ledger.ledger import Ledger
from iscope.ledger.plan import Plan
from iscope.model import Report
from iscope.recipes.defaults import DEFAULT_RECIPES
from iscope.recipes.grammar import parse
from iscope.recipes.model import BoundRecipe

Path = str | os.PathLike[str]
Paths = Path | Sequence[Path]


def analyze(
    *dump: Source,
    trainer: Any = (),
    vllm: Any = (),
    current: Any = (),
    ref: Any = (),
    on: str = "rollout_id",
    recipes: Sequence[str | BoundRecipe] | None = None,
    by: Sequence[str] = (),
    where: str | None = None,
    columns: Mapping[str, str] | None = None,
    precision: Literal["float32", "float64"] = "float32",
    unscored: Literal["exclude", "neutral"] = "exclude",
    strict: bool = False,
    ledger: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Measure the trainer/inference mismatch of a dump and replay correction recipes on it.

    Args:
        *dump: files, folders, globs, polars or Arrow tables, or ``RolloutBatch``es that hold both sides.
        trainer: in place of ``dump``, the trainer's side.
        vllm: in place of ``dump``, the inference engine's side.
        current: a side with the current policy's logprobs.
        ref: a side with the reference policy's logprobs.
        on: the column that pairs the sides.
        recipes: recipes to replay, as ``NAME:option=value,...``; None takes the default list.
        by: what to break the figures down by: ``lag``, ``length``, ``group``, ``p`` or a column of rollouts; step and
            lag are added where there are several.
        where: SQL expression on columns of rollouts; only those that meet it are looked at.
        columns: which column of the dump holds what, for names that are not recognised.
        precision: the precision of the log-ratios and of every keep-decision.
        unscored: leave loss tokens with an unusable logprob out, or give them ratio 1.
        strict: make a bad row an error instead of leaving it out.
        ledger: a file to keep the ledger in, from which reports can be made without the dump; it is replaced if it
            exists.
        progress: called with the rollouts and tokens of each batch that is done.

    Returns:
        The report.

    Raises:
        UsageError: an unknown recipe or option, a contradiction, a ledger file that cannot be written.
        DataError: a dump that cannot be used.
    """
    plan = make_plan(recipes, by=by, precision=precision, unscored=unscored)
    sides = _sides(trainer, vllm, current, ref, on)
    source = open_dump(
        dump, sides=sides, columns=columns, carry=plan.carry, precision=precision, strict=strict, where=where
    )
    kept = None if ledger is None else output_path(ledger, (file.path for file in source.files))
    cuts = find_cuts(source.batches, plan.recipes, plan.unscored)
    measured = local.run(source.batches(), plan, progress, cuts)
    _refuse_nothing(measured, source)
    if kept is not None:
        store.save(measured, kept)
    return report_of(measured, source, by)


def replay(
    *dump: Source,
    recipe: str | BoundRecipe,
    trainer: Any = (),
    vllm: Any = (),
    current: Any = (),
    ref: Any = (),
    on: str = "rollout_id",
    where: str | None = None,
    columns: Mapping[str, str] | None = None,
    precision: Literal["float32", "float64"] = "float32",
    unscored: Literal["exclude", "neutral"] = "exclude",
    strict: bool = False,
    batch: str | int = "all",
    output: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """Replay one recipe and return what it does to every token: weight, keep and score coefficient.

    Args:
        *dump: files, folders, globs, polars or Arrow tables, or ``RolloutBatch``es that hold both sides.
        recipe: the recipe to replay, as ``NAME:option=value,...``.
        trainer: in place of ``dump``, the trainer's side.
        vllm: in place of ``dump``, the inference engine's side.
        current: a side with the current policy's logprobs.
        ref: a side with the reference policy's logprobs.
        on: the column that pairs the sides.
        where: SQL expression on columns of rollouts; only those that meet it are replayed.
        columns: which column of the dump holds what, for names that are not recognised.
        precision: the precision of the log-ratios, of every keep-decision, and of the result.
        unscored: leave loss tokens with an unusable logprob null, or give them ratio 1.
        strict: make a bad row an error instead of leaving it out.
        batch: what the loss is normalised over: ``all`` of the dump, each ``step``, or so many consecutive rollouts.
        output: a Parquet file to stream the rows to, instead of holding them in memory; it is replaced if it exists.
        progress: called with the rollouts and tokens of each batch that is done.

    Returns:
        One row per rollout, in the dump's order, and the loss of each batch.

    Raises:
        UsageError: an unknown recipe or option, a contradiction, a file that cannot be written.
        DataError: a dump that cannot be used, or that lacks what the recipe needs.
    """
    scope = batch_scope(batch)
    plan = make_plan([recipe], precision=precision, unscored=unscored)
    sides = _sides(trainer, vllm, current, ref, on)
    carry = ("step",) if scope == "step" else ()
    source = open_dump(dump, sides=sides, columns=columns, carry=carry, precision=precision, strict=strict, where=where)
    return replay_dump(source, Task(plan.recipes[0], scope, unscored), output, progress)


def make_plan(
    recipes: Sequence[str | BoundRecipe] | None = None,
    *,
    by: Sequence[str] = (),
    precision: Literal["float32", "float64"] = "float32",
    unscored: Literal["exclude", "neutral"] = "exclude",
) -> Plan:
    """Turn recipe texts and options into a plan that carries what breakdowns need.

    Raises:
        UsageError: an unknown recipe or option.
    """
    if recipes is None:
        bound = [parse(spec) for spec in DEFAULT_RECIPES]
    else:
        bound = [replace(parse(recipe) if isinstance(recipe, str) else recipe, named=True) for recipe in recipes]
    for name, value, known in (
        ("precision", precision, ("float32", "float64")),
        ("unscored", unscored, ("exclude", "neutral")),
    ):
        if value not in known:
            raise UsageError(f"{name} must be {' or '.join(known)}, not {value!r}.{did_you_mean(str(value), known)}")
    return Plan(tuple(bound), columns_of(by), precision, unscored)


def report_of(ledger: Ledger, dump: Dump, by: Sequence[str] = ()) -> Report:
    """Compute the report of a measured dump."""
    tally = dump.tally
    notes = {f"conflicting_{column}": count for column, count in sorted(tally.conflicts.items())}
    notes["not_selected"] = tally.not_selected
    return build_report(
        ledger,
        by=by,
        files=len(dump.files),
        excluded=dict(tally.excluded),
        notes={name: count for name, count in notes.items() if count},
        assumptions=dump.assumptions,
        provenance={
            "iscope": __version__,
            "files": [{"path": file.path, "bytes": file.size, "rows": file.rows} for file in dump.files],
            "plan": ledger.plan.to_dict() | {"fingerprint": ledger.plan.fingerprint()},
        },
    )


def _refuse_nothing(measured: Ledger, dump: Dump) -> None:
    """Every rollout left out is no report, but one sentence that says why."""
    excluded = {reason: count for reason, count in sorted(dump.tally.excluded.items()) if count}
    if excluded and not measured.rows.height and not dump.tally.not_selected:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in excluded.items())
        raise DataError(
            f"{dump.files[0].path}: none of its {dump.tally.rollouts_read:,} rollouts can be used ({reasons}); "
            "strict (--strict) names the first of them."
        )


def _sides(trainer: Any, vllm: Any, current: Any, ref: Any, on: str) -> Sides | None:
    given = {"trainer": trainer, "inference": vllm, "current": current, "ref": ref}
    listed = {side: _listed(sources) for side, sources in given.items()}
    return Sides(**listed, on=on) if any(listed.values()) else None


def _listed(sources: Any) -> tuple[Any, ...]:
    return tuple(sources) if isinstance(sources, list | tuple) else (sources,)
