"""``iscope merge``: the parts of a dump put together, and the report of the whole."""

from __future__ import annotations

from typing import Annotated

import typer

from iscope.cli import options as opt
from iscope.cli import output
from iscope.cli.analyze import deliver
from iscope.errors import UsageError

Parts = Annotated[
    list[str] | None,
    typer.Argument(metavar="PART", show_default=False, help="All parts of a dump, as iscope map wrote them."),
]
_QUESTION = "What to look at"

By = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        metavar="KEY",
        rich_help_panel=_QUESTION,
        help="Break figures down by step, lag, length, group, p, or a column that iscope map was given with --by; by "
        "default as it was. Repeatable.",
    ),
]


AllowMissing = Annotated[
    bool,
    typer.Option(
        "--allow-missing",
        rich_help_panel=_QUESTION,
        help="Report on the parts that there are; the coverage says what is missing.",
    ),
]


def merge(
    part: Parts = None,
    by: By = None,
    allow_missing: AllowMissing = False,
    healthy_k3: opt.HealthyK3 = None,
    ledger: opt.LedgerFile = None,
    format_name: opt.Format = None,
    output_file: opt.OutputFile = output.STDOUT,
    force: opt.Force = False,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = False,
) -> None:
    """Put the parts that iscope map wrote together: the report is that of iscope analyze on the whole dump."""
    if not part:
        raise UsageError("There is nothing to merge: name the parts that iscope map wrote.")
    kept = [ledger] if ledger else []
    target = output.target(output_file, format_name, force=force, inputs=[*part, *kept])
    for file in kept:
        output.writable(file, force=force, inputs=part, option="--ledger")

    from iscope.sharding import merge as run  # torch is imported here, once nothing can be told without it

    report = run(*part, by=by or None, healthy_k3=healthy_k3, allow_missing=allow_missing, ledger=ledger)
    deliver(report, target, quiet=quiet, verbose=verbose)
