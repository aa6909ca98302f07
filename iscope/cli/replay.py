"""``iscope replay``: one correction over a dump, and what it does to every token as a Parquet file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from iscope.cli import options as opt
from iscope.cli import output
from iscope.cli.progress import progress
from iscope.errors import UsageError

if TYPE_CHECKING:
    from iscope.engines.replay_pass import Replay
    from iscope.recipes.model import BoundRecipe


def replay(
    dump: opt.Dump = None,
    trainer: opt.Trainer = None,
    vllm: opt.Vllm = None,
    current: opt.Current = None,
    ref: opt.Ref = None,
    on: opt.On = "rollout_id",
    where: opt.Where = None,
    recipe: opt.OneRecipe = None,
    recipes_file: opt.OwnRecipes = None,
    like: opt.OneLike = None,
    columns: opt.Columns = None,
    from_format: opt.From = None,
    batch: opt.Batch = "all",
    precision: opt.PrecisionOption = "float32",
    unscored: opt.UnscoredOption = "exclude",
    device: opt.DeviceOption = "cpu",
    strict: opt.Strict = False,
    output_file: opt.WeightsFile = None,
    force: opt.Force = False,
    quiet: opt.Silent = False,
) -> None:
    """Write the weight, the keep-decision and the score coefficient that one correction gives to every token."""
    sides = {"trainer": trainer or [], "vllm": vllm or [], "current": current or [], "ref": ref or []}
    opt.check_sources(dump or [], sides)
    used = [*(dump or []), *(file for files in sides.values() for file in files)]
    path = output.writable(_file(output_file), force=force, inputs=used)
    named = opt.column_map(columns or [])
    chosen, said = _recipe(recipe or [], like or [], recipes_file or [])
    scope = _batch(batch)

    from iscope.api import replay as run  # torch is imported here, once nothing can be told without it

    with progress(quiet=quiet) as tick:
        result = run(
            *(dump or []),
            trainer=trainer or [],
            vllm=vllm or [],
            current=current or [],
            ref=ref or [],
            on=on,
            where=where,
            recipe=chosen,
            columns=named or None,
            from_format=from_format,
            precision=precision,
            unscored=unscored,
            device=device,
            strict=strict,
            batch=scope,
            output=path,
            progress=tick,
        )
    if not quiet:
        for sentence in said:
            print(sentence, file=sys.stderr)
        print(f"{output_file}: {_said(result)}", file=sys.stderr)


def _file(output_file: str | None) -> str:
    if output_file is None:
        raise UsageError("replay writes a file: name it with -o FILE.")
    if output_file == output.STDOUT:
        raise UsageError("-o -: a Parquet file cannot go to the standard output; name a file.")
    return output_file


def _recipe(
    specs: Sequence[str], likes: Sequence[str], files: Sequence[str]
) -> tuple[str | BoundRecipe, tuple[str, ...]]:
    """The one recipe that is named or read from a configuration, and what to say of the latter."""
    from iscope.recipes.configs.like import like
    from iscope.recipes.grammar import parse
    from iscope.recipes.own.toml import read_all

    given = [*specs, *likes]
    if len(given) != 1:
        count = f"{len(given)} were given" if given else "name it with --recipe NAME:option=value,..."
        raise UsageError(f"replay takes exactly one recipe; {count}.")
    if specs:
        named = parse(specs[0], read_all(files))
        return named if files else specs[0], ()
    found = like(likes[0])
    return found.recipe, found.said


def _batch(text: str) -> str | int:
    from iscope.engines.batch_scope import batch_scope

    return batch_scope(text)


def _said(result: Replay) -> str:
    """One line: rows, tokens kept, loss."""
    losses = list(result.loss.values())
    if not losses:
        loss = "no loss (the dump has no advantages)"
    elif len(losses) == 1:
        loss = f"loss {losses[0]:.6g}"
    else:
        loss = f"mean loss {sum(losses) / len(losses):.6g} of {len(losses):,} batches"
    kept = f"{result.kept:,} of {result.tokens:,} scored tokens kept"
    return f"{result.rollouts:,} rollouts, {kept}, {loss} ({result.recipe})."
