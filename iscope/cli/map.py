"""``iscope map``: one shard of a dump measured, for any scheduler."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from iscope.cli import options as opt
from iscope.cli import output
from iscope.cli.analyze import check_recipes
from iscope.cli.progress import progress
from iscope.errors import UsageError

_PART = "The part"

Dump = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="DUMP",
        show_default=False,
        help="Parquet files, folders or quoted globs of rollouts, of the whole dump.",
    ),
]
Shard = Annotated[
    str,
    typer.Option(
        "--shard",
        metavar="I/N",
        rich_help_panel=_PART,
        show_default=False,
        help="Which shard to measure, from 1, and of how many: 3/8. Every shard is given the same DUMP.",
    ),
]
PartFile = Annotated[
    str,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        rich_help_panel=_PART,
        show_default=False,
        help="The file to write, for iscope merge.",
    ),
]
Force = Annotated[bool, typer.Option("--force", rich_help_panel=_PART, help="Overwrite the file of -o.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", rich_help_panel=_PART, help="No progress.")]


def map_(
    dump: Dump = None,
    shard: Shard = "",
    output_file: PartFile = "",
    force: Force = False,
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
    quiet: Quiet = False,
) -> None:
    """Measure one shard of a dump of Parquet files and write the part that iscope merge takes."""
    opt.check_sources(dump or [], {})
    index, count = _shard(shard)
    if not output_file:
        raise UsageError("iscope map needs -o FILE: the part is written there.")
    target = output.writable(output_file, force=force, inputs=dump or [])
    named = opt.column_map(columns or [])
    check_recipes(recipe or [], like or [], recipes_file or [])

    from iscope.sharding import map_shard  # torch is imported here, once nothing can be told without it

    with progress(quiet=quiet) as tick:
        map_shard(
            *(dump or []),
            shard=(index, count),
            output=target,
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
            progress=tick,
        )


def _shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text.strip())
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(f"--shard takes I/N with I from 1 to N, such as 3/8{f', not {text!r}' if text else ''}.")
    return int(found[1]), int(found[2])
