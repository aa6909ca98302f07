"""``iscope compare``: many settings of recipes over one dump, and what to run; two dumps side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from iscope.cli import options as opt
from iscope.cli import output
from iscope.cli.analyze import check_recipes, deliver, say_where_text_is
from iscope.cli.progress import progress
from iscope.errors import UsageError

_CHOICE = "Which settings"

Sweep = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        metavar="OPTION=VALUES",
        rich_help_panel=_CHOICE,
        help="Values of an option, for every recipe that has it: clip_max=1.5,2,3,5 or clip_min=0.1:0.9:9[:log]. "
        "Repeatable: every combination.",
    ),
]
RankBy = Annotated[
    str | None,
    typer.Option(
        "--rank-by",
        metavar="FIGURE",
        rich_help_panel=_CHOICE,
        help="Order the settings by a figure of the JSON report, best first: gradient_left.all, product_left, "
        "unmasked_mismatch_kl.token, ...",
    ),
]
Require = Annotated[
    list[str] | None,
    typer.Option(
        "--require",
        metavar="EXPR",
        rich_help_panel=_CHOICE,
        help="Show only settings that meet it: 'gradient_left.all >= 0.9 and product_left < 50%'. Repeatable.",
    ),
]
Emit = Annotated[
    str | None,
    typer.Option(
        "--emit",
        metavar="FRAMEWORK",
        rich_help_panel=_CHOICE,
        help="Whose configuration lines the advice ends with; by default that of --like, else the setting's own.",
    ),
]
_AGAINST = "Another dump"
Against = Annotated[
    list[str] | None,
    typer.Option(
        "--against",
        metavar="DUMP",
        rich_help_panel=_AGAINST,
        help="Hold the dump against another one: every figure side by side and what changed. Repeatable; quote globs.",
    ),
]
AgainstTrainer = Annotated[
    list[str] | None,
    typer.Option(
        "--against-trainer",
        metavar="FILE",
        rich_help_panel=_AGAINST,
        help="Trainer side of the other dump; a side that is not given is that of this one. Repeatable.",
    ),
]
AgainstVllm = Annotated[
    list[str] | None,
    typer.Option(
        "--against-vllm", metavar="FILE", rich_help_panel=_AGAINST, help="Inference side of the other. Repeatable."
    ),
]
AgainstCurrent = Annotated[
    list[str] | None,
    typer.Option(
        "--against-current", metavar="FILE", rich_help_panel=_AGAINST, help="Its current policy's side. Repeatable."
    ),
]


def compare(
    dump: opt.Dump = None,
    trainer: opt.Trainer = None,
    vllm: opt.Vllm = None,
    current: opt.Current = None,
    ref: opt.Ref = None,
    on: opt.On = "rollout_id",
    recipe: opt.Recipes = None,
    recipes_file: opt.OwnRecipes = None,
    like: opt.Like = None,
    sweep: Sweep = None,
    rank_by: RankBy = None,
    require: Require = None,
    emit: Emit = None,
    against: Against = None,
    against_trainer: AgainstTrainer = None,
    against_vllm: AgainstVllm = None,
    against_current: AgainstCurrent = None,
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
    include_text: opt.IncludeText = False,
    format_name: opt.Format = None,
    output_file: opt.OutputFile = output.STDOUT,
    force: opt.Force = False,
    quiet: opt.Quiet = False,
    verbose: opt.Verbose = False,
) -> None:
    """Weigh corrections and their bounds against each other on one dump, and say which to run."""
    sides = {"trainer": trainer or [], "vllm": vllm or [], "current": current or [], "ref": ref or []}
    opt.check_sources(dump or [], sides)
    other = {
        "against": against or [],
        "against_trainer": against_trainer or [],
        "against_vllm": against_vllm or [],
        "against_current": against_current or [],
    }
    if other["against"] and any(files for name, files in other.items() if name != "against"):
        raise UsageError("--against names a dump that holds both sides; give it, or --against-trainer and the like.")
    used = [*(dump or []), *(file for files in (*sides.values(), *other.values()) for file in files)]
    target = output.target(output_file, format_name, force=force, inputs=used)
    if include_text:
        say_where_text_is(target.format, quiet=quiet)
    named = opt.column_map(columns or [])
    check_recipes(recipe or [], like or [], recipes_file or [])

    from iscope.comparison import compare as run  # torch is imported here, once nothing can be told without it

    with progress(quiet=quiet, files=_read(dump or [], sides["trainer"], other)) as tick:
        report = run(
            *(dump or []),
            **sides,
            on=on,
            recipes=recipe,
            recipes_file=recipes_file or [],
            like=like or [],
            sweep=sweep or [],
            rank_by=rank_by,
            require=require or [],
            emit=emit,
            **other,
            by=by or [],
            where=where,
            columns=named or None,
            from_format=from_format,
            precision=precision,
            unscored=unscored,
            strict=strict,
            batch=batch,
            device=device,
            healthy_k3=healthy_k3,
            include_text=include_text,
            progress=tick,
        )
    deliver(report, target, quiet=quiet, verbose=verbose)


def _read(dump: list[str], trainer: list[str], other: dict[str, list[str]]) -> list[str]:
    """What is read, one side of either dump."""
    sides = other["against_trainer"] or (trainer if other["against_vllm"] or other["against_current"] else [])
    return [*dump, *trainer, *other["against"], *sides]
