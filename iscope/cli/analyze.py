"""``iscope analyze``: replay corrections over a dump and report what they do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from iscope.cli import gated, output
from iscope.cli import options as opt
from iscope.cli.follow import following
from iscope.cli.follow import run as run_following
from iscope.cli.progress import progress
from iscope.engines.named import check_engine
from iscope.errors import UsageError
from iscope.render import renderer

if TYPE_CHECKING:
    from iscope.model import Report

TEXT_FORMATS = ("html", "json")


def analyze(
    dump: opt.Dump = None,
    trainer: opt.Trainer = None,
    vllm: opt.Vllm = None,
    current: opt.Current = None,
    ref: opt.Ref = None,
    on: opt.On = "rollout_id",
    recipe: opt.Recipes = None,
    recipes_file: opt.OwnRecipes = None,
    like: opt.Like = None,
    fit: opt.Fit = None,
    by: opt.By = None,
    where: opt.Where = None,
    columns: opt.Columns = None,
    from_format: opt.From = None,
    batch: opt.Batch = "all",
    precision: opt.PrecisionOption = "float32",
    unscored: opt.UnscoredOption = "exclude",
    strict: opt.Strict = False,
    device: opt.DeviceOption = "cpu",
    healthy_k3: opt.HealthyK3 = None,
    follow: opt.Follow = False,
    quiet_for: opt.QuietFor = None,
    follow_until: opt.FollowUntil = None,
    idle_timeout: opt.IdleTimeout = None,
    engine: opt.EngineName = "local",
    resume: opt.Resume = None,
    resume_every: opt.ResumeEvery = 30.0,
    allow_missing: opt.AllowMissing = False,
    gates: gated.GatesFile = None,
    baseline: gated.BaselineFile = None,
    ledger: opt.LedgerFile = None,
    include_text: opt.IncludeText = False,
    format_name: opt.Format = None,
    output_file: opt.OutputFile = output.STDOUT,
    force: opt.Force = False,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = False,
) -> None:
    """Report how far trainer and inference engine are apart, and what each correction does to the batch."""
    sides = {"trainer": trainer or [], "vllm": vllm or [], "current": current or [], "ref": ref or []}
    opt.check_sources(dump or [], sides)
    used = [*(dump or []), *(file for files in sides.values() for file in files)]
    kept = [ledger] if ledger else []
    target = output.target(output_file, format_name, force=force, inputs=[*used, *kept])
    if include_text:
        say_where_text_is(target.format, quiet=quiet)
    for file in kept:
        output.writable(file, force=force, inputs=used, option="--ledger")
    named = opt.column_map(columns or [])
    share = opt.fit_share(fit)
    how = following(follow, quiet_for, follow_until, idle_timeout)
    in_parts = engine != "local" or resume is not None or allow_missing
    check_ways(following=how is not None, in_parts=in_parts, fit=share is not None, device=device)
    check_engine(engine)
    check_recipes(recipe or [], like or [], recipes_file or [])
    limits = gated.read(gates, baseline)

    options: dict[str, Any] = {
        **sides,
        "on": on,
        "recipes": recipe,
        "recipes_file": recipes_file or [],
        "like": like or [],
        "by": by or [],
        "where": where,
        "columns": named or None,
        "from_format": from_format,
        "precision": precision,
        "unscored": unscored,
        "strict": strict,
        "batch": batch,
        "healthy_k3": healthy_k3,
        "ledger": ledger,
        "include_text": include_text,
    }
    if how is not None:
        report = run_following(dump or [], target, how, quiet=quiet, verbose=verbose, **options)
    else:
        from iscope.api import analyze as run  # torch is imported here, once nothing can be told without it

        with progress(quiet=quiet, files=[*(dump or []), *sides["trainer"]]) as tick:
            report = run(
                *(dump or []),
                **options,
                fit=share,
                device=device,
                engine=engine,
                resume=resume,
                resume_every=resume_every,
                allow_missing=allow_missing,
                progress=tick,
            )
    deliver(report, target, quiet=quiet, verbose=verbose)
    if limits is not None:
        gated.hold(report, limits, baseline, healthy_k3, quiet=quiet)


def check_ways(*, following: bool, in_parts: bool, fit: bool, device: str) -> None:
    """Refuse ways of measuring a dump that do not go together.

    Raises:
        UsageError: when that is asked for.
    """
    if following and fit:
        raise UsageError("--fit needs the whole dump before it is measured: leave it out, or leave out --follow.")
    if following and in_parts:
        raise UsageError("--follow measures files as they come: leave out --engine, --resume and --allow-missing.")
    if following and device == "cuda":
        raise UsageError("--device cuda is for a dump that is measured in one go: leave out --follow.")


def say_where_text_is(format_name: str, *, quiet: bool) -> None:
    """Say that a format has no place for the text that was asked for, where it has none."""
    if format_name not in TEXT_FORMATS and not quiet:
        print(
            f"iscope: note: {format_name} reports show no text; write HTML or JSON, as with -o report.html.",
            file=sys.stderr,
        )


def check_recipes(specs: Sequence[str], likes: Sequence[str], files: Sequence[str]) -> None:
    """Refuse recipes and configurations that cannot be read, before any work is done for them.

    Raises:
        UsageError: when there is one.
    """
    from iscope.recipes.configs.like import like
    from iscope.recipes.grammar import parse
    from iscope.recipes.own.toml import read_all

    own = read_all(files)
    for spec in specs:
        parse(spec, own)
    for text in likes:
        like(text)


def deliver(report: Report, where: output.Target, *, quiet: bool, verbose: bool) -> None:
    """Write a report where it is wanted; of one in a file the verdict goes to the standard error."""
    from iscope.render.terminal import verdict_line

    if quiet and where.path is None and where.format == "terminal":
        output.write(verdict_line(report) + "\n", where)
        return
    render = renderer(where.format)
    output.write(render(report, width=where.width, verbose=verbose, color=where.color), where)
    if where.path is not None:
        print(verdict_line(report), file=sys.stderr)
        if not quiet:
            print(f"The report is in {where.path}.", file=sys.stderr)
