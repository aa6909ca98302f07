"""``iscope report``: a saved report in any format, without the dump and without torch."""

from __future__ import annotations

from typing import Annotated

import typer

from iscope.cli import options as opt
from iscope.cli import output
from iscope.cli.analyze import deliver

Saved = Annotated[str, typer.Argument(metavar="SAVED", help="A report saved as JSON: iscope analyze -o report.json.")]


def report(
    saved: Saved,
    format_name: opt.Format = None,
    output_file: opt.OutputFile = output.STDOUT,
    force: opt.Force = False,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = False,
) -> None:
    """Show a saved report, or write it in another format; it reads neither the dump nor anything else."""
    target = output.target(output_file, format_name, force=force, inputs=[saved])

    from iscope.model.saved import read_report

    deliver(read_report(saved), target, quiet=quiet, verbose=verbose)
