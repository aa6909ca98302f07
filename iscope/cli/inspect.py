"""``iscope inspect``: what is in a dump and what is wrong with it; no correction is replayed."""

from __future__ import annotations

import shutil
from typing import Annotated, Literal

import typer

from iscope.cli import options as opt
from iscope.cli import output
from iscope.cli.progress import progress


def inspect(
    dump: opt.Dump = None,
    trainer: opt.Trainer = None,
    vllm: opt.Vllm = None,
    current: opt.Current = None,
    ref: opt.Ref = None,
    on: opt.On = "rollout_id",
    where: opt.Where = None,
    columns: opt.Columns = None,
    from_format: opt.From = None,
    strict: opt.Strict = False,
    device: opt.DeviceOption = "cpu",
    healthy_k3: opt.HealthyK3 = None,
    format_: Annotated[Literal["terminal", "json"], typer.Option("--format", help="How to print it.")] = "terminal",
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = False,
) -> None:
    """Say what a dump holds, which columns were recognised, and what it shows."""
    sides = {"trainer": trainer or [], "vllm": vllm or [], "current": current or [], "ref": ref or []}
    opt.check_sources(dump or [], sides)
    named = opt.column_map(columns or [])
    target = output.Target(None, format_)

    from iscope.inspecting import inspect as run  # torch is imported here, once nothing can be told without it
    from iscope.render.terminal.inspection import as_json, render

    with progress(quiet=quiet) as tick:
        found = run(
            *(dump or []),
            **sides,
            on=on,
            where=where,
            columns=named or None,
            from_format=from_format,
            strict=strict,
            device=device,
            healthy_k3=healthy_k3,
            progress=tick,
        )
    if format_ == "json":
        output.write(as_json(found), target)
        return
    width = shutil.get_terminal_size().columns
    output.write(render(found, width=width, verbose=verbose, quiet=quiet, color=target.color), target)
