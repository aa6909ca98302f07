"""``iscope check``: figures of a dump, or of a saved report, held against gates; 1 where one fails."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from iscope.cli import options as opt
from iscope.cli import output
from iscope.cli.analyze import check_recipes
from iscope.cli.progress import progress
from iscope.errors import UsageError
from iscope.render.check import EXTENSIONS, RENDERERS, check_renderer, verdict_line

if TYPE_CHECKING:
    from iscope.model.check import CheckResult

_GATES, _OUTPUT = "Gates", "Output"
_SUMMARY = "GITHUB_STEP_SUMMARY"

Dump = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="DUMP",
        show_default=False,
        help="Files, folders or quoted globs of rollouts; or one report saved as JSON, which needs no dump.",
    ),
]
GatesFile = Annotated[
    str | None,
    typer.Option(
        "--gates",
        metavar="FILE",
        rich_help_panel=_GATES,
        show_default=False,
        help="A TOML file of gates; default is the default gates alone. Without it iscope.toml, else [tool.iscope] of "
        "pyproject.toml, of this folder, else the default gates.",
    ),
]
BaselineFile = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        metavar="FILE",
        rich_help_panel=_GATES,
        help="Figures of a healthy dump that this one is held against; by default what the file of gates names.",
    ),
]
WriteBaseline = Annotated[
    str | None,
    typer.Option(
        "--write-baseline",
        metavar="FILE",
        rich_help_panel=_GATES,
        help="Write this dump's figures as a baseline, unless a gate fails.",
    ),
]
UpdateBaseline = Annotated[
    bool,
    typer.Option(
        "--update-baseline",
        rich_help_panel=_GATES,
        help="Replace the baseline by this dump's figures, unless a gate fails, and show what changes.",
    ),
]
Framework = Annotated[
    str,
    typer.Option(
        "--framework",
        metavar="NAME",
        rich_help_panel=_GATES,
        show_default=False,
        help="Whose own limits are default gates too: prime-rl, nemo-rl, verl, slime, skyrl; else that of --like.",
    ),
]
ExitZero = Annotated[
    bool, typer.Option("--exit-zero", rich_help_panel=_GATES, help="Exit with 0 even where a gate fails.")
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="|".join(RENDERERS),
        rich_help_panel=_OUTPUT,
        show_default=False,
        help="Format of the result; github are annotations, and the step's summary. By default from the extension of "
        "-o, else terminal.",
    ),
]
OutputFile = Annotated[
    str,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        rich_help_panel=_OUTPUT,
        help=f"Where the result goes ({', '.join(EXTENSIONS)}); - is the standard output.",
    ),
]


def check(
    dump: Dump = None,
    trainer: opt.Trainer = None,
    vllm: opt.Vllm = None,
    current: opt.Current = None,
    ref: opt.Ref = None,
    on: opt.On = "rollout_id",
    gates: GatesFile = None,
    baseline: BaselineFile = None,
    write_baseline: WriteBaseline = None,
    update_baseline: UpdateBaseline = False,
    framework: Framework = "",
    exit_zero: ExitZero = False,
    recipe: opt.Recipes = None,
    recipes_file: opt.OwnRecipes = None,
    like: opt.Like = None,
    by: opt.By = None,
    where: opt.Where = None,
    columns: opt.Columns = None,
    from_format: opt.From = None,
    batch: opt.Batch = "all",
    precision: opt.PrecisionOption = "float32",
    unscored: opt.UnscoredOption = "exclude",
    strict: opt.Strict = False,
    healthy_k3: opt.HealthyK3 = None,
    format_name: Format = None,
    output_file: OutputFile = output.STDOUT,
    force: opt.Force = False,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = False,
) -> None:
    """Hold the figures of a dump against gates, and exit with 1 where one fails."""
    sides = {"trainer": trainer or [], "vllm": vllm or [], "current": current or [], "ref": ref or []}
    opt.check_sources(dump or [], sides)
    used = [*(dump or []), *(file for files in sides.values() for file in files)]
    kept = [file for file in (gates, baseline, write_baseline) if file]
    target = output.target(
        output_file, format_name, force=force, inputs=[*used, *kept], formats=RENDERERS, extensions=EXTENSIONS
    )
    if write_baseline is not None:
        output.writable(write_baseline, force=force, inputs=used, option="--write-baseline")
    named = opt.column_map(columns or [])
    check_recipes(recipe or [], like or [], recipes_file or [])

    from iscope.checking import check as run

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
    }
    with progress(quiet=quiet, files=[*(dump or []), *sides["trainer"]]) as tick:
        result = run(
            *(dump or []),
            gates=gates,
            baseline=baseline,
            write_baseline=write_baseline,
            update_baseline=update_baseline,
            framework=framework,
            healthy_k3=healthy_k3,
            progress=tick,
            **options,
        )
    _deliver(result, target, quiet=quiet, verbose=verbose)
    if not result.passed and not exit_zero:
        raise typer.Exit(1)


def _deliver(result: CheckResult, where: output.Target, *, quiet: bool, verbose: bool) -> None:
    """Write a result where it is wanted; of one in a file the verdict goes to the standard error."""
    if quiet and where.path is None and where.format == "terminal":
        output.write(verdict_line(result) + "\n", where)
        return
    render = check_renderer(where.format)
    output.write(render(result, width=where.width, verbose=verbose, color=where.color), where)
    if where.format == "github":
        _summarise(result)
    if where.path is not None:
        print(verdict_line(result), file=sys.stderr)
        if not quiet:
            print(f"The result is in {where.path}.", file=sys.stderr)


def _summarise(result: CheckResult) -> None:
    """Append the result to the summary of the step, where there is one.

    Raises:
        UsageError: when the file cannot be written.
    """
    summary = os.environ.get(_SUMMARY)
    if not summary:
        return
    try:
        with open(summary, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(check_renderer("markdown")(result))
    except OSError as error:
        raise UsageError(f"{_SUMMARY} {summary}: cannot write it: {error.strerror or error}.") from error
