"""Gates that a report of ``iscope analyze`` is held against once it is delivered."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from iscope.cli import output
from iscope.render.check import check_renderer

if TYPE_CHECKING:
    from iscope.gates import Config
    from iscope.model import Report

PANEL = "Gates"

GatesFile = Annotated[
    str | None,
    typer.Option(
        "--gates",
        metavar="FILE",
        rich_help_panel=PANEL,
        show_default=False,
        help="Exit with 1 where a gate of this TOML file fails, as iscope check does; default is the default gates.",
    ),
]
BaselineFile = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        metavar="FILE",
        rich_help_panel=PANEL,
        help="Figures of a healthy dump that gates are relative to; by default what the file of gates names.",
    ),
]


def read(gates: str | None, baseline: str | None) -> Config | None:
    """Return the gates that were asked for, None for none: they are read before any work is done for a report.

    Raises:
        UsageError: when the file of gates or the baseline cannot be used.
    """
    if gates is None and baseline is None:
        return None
    from iscope.checking import read_gates
    from iscope.gates import read_baseline

    config = read_gates(gates)
    named = baseline or config.baseline
    if named:
        read_baseline(named)
    return config


def hold(report: Report, config: Config, baseline: str | None, healthy_k3: float | None, *, quiet: bool) -> None:
    """Show on the standard error how a report does against gates, and end with 1 where one fails."""
    from iscope.checking import check

    result = check(report, gates=config, baseline=baseline, healthy_k3=healthy_k3)
    where = output.target(output.STDOUT, "terminal", force=False)
    page = check_renderer("terminal")(result, width=where.width, quiet=quiet)
    print(page, end="", file=sys.stderr)
    if not result.passed:
        raise typer.Exit(1)
