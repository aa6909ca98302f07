"""``iscope convert``: any dump as one Parquet file of the canonical columns."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from iscope.cli import options as opt
from iscope.cli import output
from iscope.cli.progress import progress
from iscope.errors import UsageError

if TYPE_CHECKING:
    from iscope.dump.canonical import Converted

_Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="SRC... DEST",
        show_default=False,
        help="Files, folders or quoted globs to read, and the Parquet file to write. With --trainer and --vllm, DEST "
        "alone.",
    ),
]


def convert(
    paths: _Paths,
    trainer: opt.Trainer = None,
    vllm: opt.Vllm = None,
    current: opt.Current = None,
    ref: opt.Ref = None,
    on: opt.On = "rollout_id",
    where: opt.Where = None,
    columns: opt.Columns = None,
    from_format: opt.From = None,
    strict: opt.Strict = False,
    force: opt.Force = False,
    quiet: opt.Silent = False,
) -> None:
    """Write a dump, whoever wrote it, as one Parquet file of the canonical columns; two sides are joined."""
    *dump, destination = paths
    sides = {"trainer": trainer or [], "vllm": vllm or [], "current": current or [], "ref": ref or []}
    if not dump and not any(sides.values()):
        raise UsageError(f"convert reads one dump and writes another: name SRC and DEST, not {destination!r} alone.")
    opt.check_sources(dump, sides)
    used = [*dump, *(file for files in sides.values() for file in files)]
    path = output.writable(destination, force=force, inputs=used, option="DEST")
    named = opt.column_map(columns or [])

    from iscope.dump.canonical import convert as run  # torch is imported here, once nothing can be told without it

    with progress(quiet=quiet) as tick:
        done = run(
            *dump,
            output=path,
            trainer=sides["trainer"],
            vllm=sides["vllm"],
            current=sides["current"],
            ref=sides["ref"],
            on=on,
            where=where,
            columns=named or None,
            from_format=from_format,
            strict=strict,
            progress=tick,
        )
    if not quiet:
        _tell(done, destination)


def _tell(done: Converted, destination: str) -> None:
    for sentence in done.assumptions:
        print(sentence, file=sys.stderr)
    left = ", ".join(f"{reason} {count:,}" for reason, count in sorted(done.excluded.items()))
    more = f"; left out: {left}" if left else ""
    print(f"{destination}: {done.rollouts:,} rollouts, {done.tokens:,} tokens{more}.", file=sys.stderr)
