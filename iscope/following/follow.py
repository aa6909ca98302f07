"""follow(): the report of a run while it is being written, each file measured once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from iscope.analysis.levels import Levels
from iscope.analysis.shown import with_tokens
from iscope.api import Path, make_plan, report_of, sides_of
from iscope.dump import Source
from iscope.dump.lookup import Lookup
from iscope.dump.watch import Opening, Watch
from iscope.dump.writer import output_path
from iscope.errors import UsageError
from iscope.following.rounds import Following
from iscope.ledger import store
from iscope.model import Report
from iscope.recipes.configs.like import likes
from iscope.recipes.own.accept import AnyRecipe

Say = Callable[[str], None]


def follow(
    *dump: Source,
    trainer: Any = (),
    vllm: Any = (),
    current: Any = (),
    ref: Any = (),
    on: str = "rollout_id",
    recipes: Sequence[AnyRecipe] | None = None,
    recipes_file: Path | Sequence[Path] = (),
    like: str | Sequence[str] = (),
    by: Sequence[str] = (),
    where: str | None = None,
    columns: Mapping[str, str] | None = None,
    from_format: str | None = None,
    precision: Literal["float32", "float64"] = "float32",
    unscored: Literal["exclude", "neutral"] = "exclude",
    strict: bool = False,
    batch: str | int = "all",
    healthy_k3: float | None = None,
    ledger: Path | None = None,
    include_text: bool = False,
    quiet_for: float = 5.0,
    until: int | None = None,
    idle_timeout: float | None = None,
    every: float | None = None,
    say: Say | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Report]:
    """Yield the report of a dump that is being written, anew whenever there are finished files that it lacks.

    A file is finished when a marker of its framework stands beside it (``STABLE``), or when it has not changed for
    ``quiet_for`` seconds; those of object stores are when they are listed. Each is measured once, and put together with
    what was measured before. The dump is read again only where a recipe looks at the whole batch, where a batch is N
    rollouts in a row, and where a file has changed, changes the type of a column or, in a dump with sides, shares a
    key with files before. The last report is that of ``analyze`` over the same files.

    Args:
        *dump: files, folders or globs, as of ``analyze``, like all arguments that are not described here.
        trainer: in place of ``dump``, the trainer's side. Files are measured once there are some of every side that
            share rollouts, and the others at the end.
        vllm: the inference engine's side.
        current: a side with the current policy's logprobs.
        ref: a side with the reference policy's logprobs.
        on: the column that pairs the sides.
        recipes: recipes to replay; None takes the default list.
        recipes_file: TOML files of own recipes.
        like: frameworks' own configurations, whose recipes are replayed too.
        by: what to break the figures down by.
        where: SQL expression on columns of rollouts.
        columns: which column of the dump holds what.
        from_format: the framework whose format files have; None finds out for each.
        precision: the precision of the log-ratios and of every keep-decision.
        unscored: leave loss tokens with an unusable logprob out, or give them ratio 1.
        strict: make a bad row or file an error instead of leaving it out.
        batch: the scope of every normaliser, batch-normalised weight and sort.
        healthy_k3: k3 up to which the verdict calls this stack healthy, nats per token.
        ledger: a file to keep the ledger in, written anew with each report.
        include_text: whether reports hold the text of the worst rollouts, where the dump has it.
        quiet_for: seconds.
        until: end with the report that has a rollout of a later step, or one of this step while no file is unfinished.
        idle_timeout: end after so many seconds without a new file; None waits for ever.
        every: seconds between two looks; None is 1 on this machine and 15 for a remote store.
        say: takes a sentence about a file that is left out, has changed or has gone.
        progress: called with the rollouts and tokens of each batch that is done.

    Raises:
        UsageError: an unknown recipe or option, a contradiction, or data in memory, which does not grow.
        DataError: when there is no such place, or it ends without a file that can be used.
    """
    for name, seconds in {"quiet_for": quiet_for, "idle_timeout": idle_timeout, "every": every}.items():
        if seconds is not None and not 0 <= seconds <= threading.TIMEOUT_MAX:
            raise UsageError(f"{name} must be a number of seconds from 0, not {seconds}.")
    own, said = likes(like)
    plan = make_plan(
        recipes,
        recipes_file=recipes_file,
        like=own,
        by=by,
        precision=precision,
        unscored=unscored,
        batch=batch,
    )
    sides = sides_of(trainer, vllm, current, ref, on)
    options = {
        "columns": columns,
        "carry": plan.carried,
        "precision": precision,
        "strict": strict,
        "where": where,
        "from_format": from_format,
    }
    opening = Opening(dump, sides, options)
    following = Following(plan, opening, Watch(quiet_for), say or _unsaid, progress)
    kept = None if ledger is None else output_path(ledger)
    levels = Levels.of(healthy_k3)
    for measured, source, left in following.rounds(until, idle_timeout, every or opening.pause):
        if kept is not None:
            store.save(measured, kept)
        lookup = Lookup.of(source, columns, text=include_text)
        yield with_tokens(report_of(measured, source, by, [*said, *left], levels), measured, lookup)


def _unsaid(sentence: str) -> None:
    """Nobody listens."""
