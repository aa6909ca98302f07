"""The whole program in a few readable functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch

from iscope import __version__
from iscope.analysis.breakdown import columns_of
from iscope.analysis.fit import check_fit, fit_plan
from iscope.analysis.levels import Levels
from iscope.analysis.report import build_report
from iscope.analysis.shown import with_tokens
from iscope.dump import Dump, Sides, Source, open_dump
from iscope.dump.lookup import Lookup
from iscope.dump.record import Record
from iscope.dump.tally import merged
from iscope.dump.units import side_by_side
from iscope.dump.writer import output_path
from iscope.engines import local
from iscope.engines.batch_scope import batch_scope
from iscope.engines.conduct import How, measure_in_parts, refuse_nothing
from iscope.engines.cuts_pass import find_cuts
from iscope.engines.device import CPU, batch_tokens, device_of
from iscope.engines.in_parts import Engine
from iscope.engines.replay_pass import Replay, Task, replay_dump
from iscope.engines.scopes import scoped
from iscope.errors import UsageError, did_you_mean
from iscope.ledger import store
from iscope.ledger.ledger import Ledger
from iscope.ledger.plan import Plan
from iscope.model import Report
from iscope.recipes.configs.like import like as read_like
from iscope.recipes.configs.like import likes
from iscope.recipes.configs.reference import without_reference
from iscope.recipes.defaults import DEFAULT_RECIPES
from iscope.recipes.grammar import parse
from iscope.recipes.model import BoundRecipe
from iscope.recipes.own.accept import AnyRecipe, bound
from iscope.recipes.own.toml import read_all

Path = str | os.PathLike[str]
Paths = Path | Sequence[Path]


def analyze(
    *dump: Source,
    trainer: Any = (),
    vllm: Any = (),
    current: Any = (),
    ref: Any = (),
    on: str = "rollout_id",
    recipes: Sequence[AnyRecipe] | None = None,
    recipes_file: Path | Sequence[Path] = (),
    like: str | Sequence[str] = (),
    by: Sequence[str] = (),
    where: str | None = None,
    columns: Mapping[str, str] | None = None,
    from_format: str | None = None,
    precision: Literal["float32", "float64"] = "float32",
    unscored: Literal["exclude", "neutral"] = "exclude",
    strict: bool = False,
    batch: str | int = "all",
    fit: float | None = None,
    healthy_k3: float | None = None,
    device: Literal["auto", "cpu", "cuda"] = "cpu",
    ledger: Path | None = None,
    engine: str | Engine = "local",
    resume: Path | None = None,
    resume_every: float = 30.0,
    allow_missing: bool = False,
    include_text: bool = False,
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
        recipes: recipes to replay, as ``NAME:option=value,...``, or as data or functions of the user's
            (``docs/own_recipes.md``); None takes the default list.
        recipes_file: TOML files of own recipes, which can then be named; those of the default list come after ``none``.
        like: frameworks' own configurations, ``trl:args.json``, whose recipes are replayed too: after ``none`` in the
            default list, else before the recipes named.
        by: what to break the figures down by: ``lag``, ``length``, ``group``, ``p`` or a column of rollouts; step and
            lag are added where there are several.
        where: SQL expression on columns of rollouts; only those that meet it are looked at.
        columns: which column of the dump holds what, for names that are not recognised.
        from_format: the framework whose format files have (``prime-rl``, ``slime``, ...); None finds out for each.
        precision: the precision of the log-ratios and of every keep-decision.
        unscored: leave loss tokens with an unusable logprob out, or give them ratio 1.
        strict: make a bad row an error instead of leaving it out.
        batch: the scope of every normaliser, batch-normalised weight and sort: ``all`` of the dump, each ``step``, or
            so many consecutive rollouts. Metrics under a framework's own names are over the whole dump.
        fit: share of the dump, above 0 and below 1, that bounds of the recipes named are to keep: those on ratios that
            were left at their default are set to quantiles of this very dump, which is then read once more.
        healthy_k3: k3 of trainer over inference up to which the verdict calls this stack healthy, nats per token; None
            is that of a dense model in bf16.
        device: where tokens are measured, ``cpu`` or ``cuda``; ``auto`` is a GPU where there is one with memory left.
        ledger: a file to keep the ledger in, from which reports can be made without the dump; it is replaced if it
            exists.
        engine: what measures the dump: ``local``, ``ray``, or an engine (``iscope.engines.Ray(address=...)``). The
            report is the same, bit for bit.
        resume: a folder that keeps what is done of the dump, and from which the same call goes on after it was
            interrupted, killed or failed; it is made if there is none.
        resume_every: seconds of work that may be lost then.
        allow_missing: leave parts of the dump out that cannot be measured; what is missing stands in the coverage.
        include_text: whether the report holds the text of the worst rollouts, where the dump has it.
        progress: called with the rollouts and tokens of each batch that is done.

    Returns:
        The report.

    Raises:
        UsageError: an unknown recipe or option, a contradiction, a ledger file that cannot be written.
        DataError: a dump that cannot be used.
    """
    in_one_go = engine == "local" and resume is None and not allow_missing
    if device == "cuda" and not in_one_go:
        raise UsageError(
            "The device cuda is for a dump that is measured in one go: leave out engine (--engine), resume (--resume), "
            "and allow_missing (--allow-missing)."
        )
    levels, place = Levels.of(healthy_k3), device_of(device)
    own, said = likes(like)
    plan = make_plan(
        recipes,
        recipes_file=recipes_file,
        like=own,
        by=by,
        precision=precision,
        unscored=unscored,
        batch=batch,
    )
    sides = sides_of(trainer, vllm, current, ref, on)
    source = open_dump(
        dump,
        sides=sides,
        columns=columns,
        carry=plan.carried,
        precision=precision,
        strict=strict,
        where=where,
        from_format=from_format,
    )
    lookup = Lookup.of(source, columns, text=include_text)
    plan, left = without_reference_terms(plan, source)
    kept = None if ledger is None else output_path(ledger, (file.path for file in source.files))
    if fit is not None:
        plan = _fitted(plan, source, fit, How(engine, allow_missing=allow_missing), place)
    if in_one_go:
        measured, record = measure_dump(plan, source, progress, place), Record.of(source)
    else:
        how = How(engine, resume, resume_every, allow_missing)
        measured, record = measure_in_parts(plan, source, how, progress)
    if kept is not None:
        store.save(measured, kept)
    return with_tokens(report_of(measured, record, by, [*said, *left], levels), measured, lookup)


def replay(
    *dump: Source,
    recipe: AnyRecipe | None = None,
    recipes_file: Path | Sequence[Path] = (),
    like: str | None = None,
    trainer: Any = (),
    vllm: Any = (),
    current: Any = (),
    ref: Any = (),
    on: str = "rollout_id",
    where: str | None = None,
    columns: Mapping[str, str] | None = None,
    from_format: str | None = None,
    precision: Literal["float32", "float64"] = "float32",
    unscored: Literal["exclude", "neutral"] = "exclude",
    strict: bool = False,
    batch: str | int = "all",
    device: Literal["auto", "cpu", "cuda"] = "cpu",
    output: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """Replay one recipe and return what it does to every token: weight, keep and score coefficient.

    Args:
        *dump: files, folders, globs, polars or Arrow tables, or ``RolloutBatch``es that hold both sides.
        recipe: the recipe to replay, as ``NAME:option=value,...``, or as data or a function of the user's.
        recipes_file: TOML files of own recipes, one of which can then be named.
        like: in place of ``recipe``, a framework's own configuration, ``trl:args.json``.
        trainer: in place of ``dump``, the trainer's side.
        vllm: in place of ``dump``, the inference engine's side.
        current: a side with the current policy's logprobs.
        ref: a side with the reference policy's logprobs.
        on: the column that pairs the sides.
        where: SQL expression on columns of rollouts; only those that meet it are replayed.
        columns: which column of the dump holds what, for names that are not recognised.
        from_format: the framework whose format files have (``prime-rl``, ``slime``, ...); None finds out for each.
        precision: the precision of the log-ratios, of every keep-decision, and of the result.
        unscored: leave loss tokens with an unusable logprob null, or give them ratio 1.
        strict: make a bad row an error instead of leaving it out.
        batch: what the loss is normalised over: ``all`` of the dump, each ``step``, or so many consecutive rollouts.
        device: where tokens are replayed.
        output: a Parquet file to stream the rows to, instead of holding them in memory; it is replaced if it exists.
        progress: called with the rollouts and tokens of each batch that is done.

    Returns:
        One row per rollout, in the dump's order, and the loss of each batch.

    Raises:
        UsageError: an unknown recipe or option, a contradiction, a file that cannot be written.
        DataError: a dump that cannot be used, or that lacks what the recipe needs.
    """
    scope, place = batch_scope(batch), device_of(device)
    plan = make_plan([_one(recipe, like)], recipes_file=recipes_file, precision=precision, unscored=unscored)
    sides = sides_of(trainer, vllm, current, ref, on)
    carry = ("step",) if scope == "step" else ()
    source = open_dump(
        dump,
        sides=sides,
        columns=columns,
        carry=carry,
        precision=precision,
        strict=strict,
        where=where,
        from_format=from_format,
    )
    return replay_dump(source, Task(plan.recipes[0], scope, unscored, place), output, progress)


def make_plan(
    recipes: Sequence[AnyRecipe] | None = None,
    *,
    recipes_file: Path | Sequence[Path] = (),
    like: Sequence[BoundRecipe] = (),
    by: Sequence[str] = (),
    precision: Literal["float32", "float64"] = "float32",
    unscored: Literal["exclude", "neutral"] = "exclude",
    batch: str | int = "all",
) -> Plan:
    """Turn recipe texts and options into a plan that carries what breakdowns need.

    Raises:
        UsageError: an unknown recipe or option.
    """
    own = read_all(_listed(recipes_file))
    if recipes is None:
        base, *others = [parse(spec) for spec in DEFAULT_RECIPES]
        taken = {recipe.spec for recipe in like}
        mine = [replace(parse(name, own), named=True) for name in own]
        chosen = [base, *like, *mine, *(recipe for recipe in others if recipe.spec not in taken)]
    else:
        chosen = [*like, *(replace(bound(recipe, own), named=True) for recipe in recipes)]
    for name, value, known in (
        ("precision", precision, ("float32", "float64")),
        ("unscored", unscored, ("exclude", "neutral")),
    ):
        if value not in known:
            raise UsageError(f"{name} must be {' or '.join(known)}, not {value!r}.{did_you_mean(str(value), known)}")
    return Plan(tuple(chosen), columns_of(by), precision, unscored, batch=batch_scope(batch))


def report_of(
    ledger: Ledger,
    dump: Dump | Record,
    by: Sequence[str] = (),
    said: Sequence[str] = (),
    levels: Levels | None = None,
    shown: Sequence[int] | None = None,
) -> Report:
    """Compute the report of a measured dump.

    Args:
        ledger: what was measured.
        dump: the dump, read to its end, or the record of it.
        by: what to break the figures down by.
        said: what to say of the configurations that were read.
        levels: what is healthy.
        shown: which of the plan's recipes are in the report, by index; None is all.
    """
    record = dump if isinstance(dump, Record) else Record.of(dump)
    return build_report(
        ledger,
        by=by,
        files=len(record.files),
        excluded=dict(record.tally.excluded),
        notes=record.notes,
        assumptions=[*said, *record.assumptions],
        provenance={
            "iscope": __version__,
            "files": [{"path": file.path, "bytes": file.size, "rows": file.rows} for file in record.files],
            "plan": ledger.plan.to_dict() | {"fingerprint": ledger.plan.fingerprint()},
        },
        levels=levels,
        supplied=record.supplied,
        shown=shown,
    )


def without_reference_terms(plan: Plan, dump: Dump) -> tuple[Plan, list[str]]:
    """Without reference logprobs, the recipes of configurations go without their KL term, and the report says so."""
    if "ref_logprobs" in dump.present:
        return plan, []
    found = [without_reference(recipe) if recipe.like else (recipe, "") for recipe in plan.recipes]
    return replace(plan, recipes=tuple(recipe for recipe, _ in found)), [said for _, said in found if said]


def _one(recipe: AnyRecipe | None, like: str | None) -> AnyRecipe:
    if recipe is not None and like is None:
        return recipe
    if recipe is None and like is not None:
        return read_like(like).recipe
    raise UsageError("replay takes exactly one recipe: name it (recipe), or a configuration that makes it (like).")


def _fitted(plan: Plan, source: Dump, keep: float, how: How, device: torch.device) -> Plan:
    check_fit(plan, keep)
    plain = replace(plan, recipes=())
    if how.engine == "local":
        return fit_plan(plan, local.run(source.batches(), plain, device=device), keep)
    return fit_plan(plan, measure_in_parts(plain, source, how)[0], keep)


def measure_dump(
    plan: Plan, dump: Dump, progress: Callable[[int, int], None] | None = None, device: torch.device = CPU
) -> Ledger:
    """Measure a dump in one pass, with the cuts and the scopes that the plan asks for.

    Raises:
        DataError: when none of its rollouts can be used.
    """
    dump.batch_tokens = max(dump.batch_tokens, batch_tokens(device))
    cuts = find_cuts(dump.batches, plan.recipes, plan.unscored, plan.batch)
    in_order = bool(cuts) or isinstance(plan.batch, int)
    parts = side_by_side(dump, 1 if in_order else local.workers_of(None))
    first, *others = [scoped(part.batches(), plan.batch) for part in parts]
    measured = local.run(first, plan, progress, cuts, device=device, beside=others)
    if others:
        dump.tally = merged([part.tally for part in parts])
    refuse_nothing(measured, dump)
    return measured


def sides_of(trainer: Any, vllm: Any, current: Any, ref: Any, on: str) -> Sides | None:
    """Return the sides of a dump, each one source or several; None where none is given."""
    given = {"trainer": trainer, "inference": vllm, "current": current, "ref": ref}
    listed = {side: _listed(sources) for side, sources in given.items()}
    return Sides(**listed, on=on) if any(listed.values()) else None


def _listed(sources: Any) -> tuple[Any, ...]:
    return tuple(sources) if isinstance(sources, list | tuple) else (sources,)
