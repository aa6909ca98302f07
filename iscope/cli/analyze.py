"""``iscope analyze``: replay corrections over a dump and report what they do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from iscope.cli import options as opt
from iscope.cli import output
from iscope.cli.progress import progress
from iscope.render import renderer

if TYPE_CHECKING:
    from iscope.model import Report


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
    device: opt.DeviceOption = "auto",
    healthy_k3: opt.HealthyK3 = None,
    ledger: opt.LedgerFile = None,
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
    for file in kept:
        output.writable(file, force=force, inputs=used, option="--ledger")
    named = opt.column_map(columns or [])
    share = opt.fit_share(fit)
    check_recipes(recipe or [], like or [], recipes_file or [])

    from iscope.api import analyze as run  # torch is imported here, once nothing can be told without it

    with progress(quiet=quiet, files=[*(dump or []), *sides["trainer"]]) as tick:
        report = run(
            *(dump or []),
            **sides,
            on=on,
            recipes=recipe,
            recipes_file=recipes_file or [],
            like=like or [],
            by=by or [],
            where=where,
            columns=named or None,
            from_format=from_format,
            precision=precision,
            unscored=unscored,
            strict=strict,
            batch=batch,
            fit=share,
            device=device,
            healthy_k3=healthy_k3,
            ledger=ledger,
            progress=tick,
        )
    deliver(report, target, quiet=quiet, verbose=verbose)


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
