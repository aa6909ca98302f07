"""The pass that replays one recipe and puts out every token: its weight, whether it is kept, its coefficient."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from iscope.dump import Dump
from iscope.dump.writer import output_path, parquet_file
from iscope.engines.ahead import decode_ahead
from iscope.engines.batch_scope import in_words
from iscope.engines.cuts_pass import find_cuts
from iscope.engines.device import CPU, enough_memory
from iscope.engines.local import Progress
from iscope.engines.replay_rows import rows, schema
from iscope.engines.scopes import Label, Scopes
from iscope.errors import DataError
from iscope.recipes.bounds import negative_weights
from iscope.recipes.model import BoundRecipe
from iscope.replay.aggregation import Totals, counted_tokens
from iscope.replay.dump_cuts import RowCuts, cuts_of, cuts_on
from iscope.replay.groups import Groups
from iscope.replay.losses.positive_nll import rewarded
from iscope.replay.normalisation import BatchMeans
from iscope.replay.outcome import Outcome, add_weights, divided, loss_tokens_of, needs_advantage, replay_batch
from iscope.replay.segments import Segments
from iscope.replay.to_device import to_device
from iscope.rollouts import RolloutBatch


@dataclass(frozen=True)
class Replay:
    """A recipe replayed on a dump, token by token.

    Attributes:
        recipe: the canonical full form of the recipe.
        loss: the whole loss of each batch after its aggregation: under ``all``, under the step, or under the batch's
            number from 0; empty where the dump has no advantages.
        rollouts: rows that were put out, empty rollouts included.
        tokens: scored tokens.
        kept: those that no filter rejects.
        table: the rows in dump order, unless they went to a file: ``rollout_id``, and the list columns ``weight``,
            ``keep`` and ``coefficient`` with one value per token of the dump, null where it is not scored.
        path: the file they went to.
        assumptions: what had to be assumed, one sentence each.
    """

    recipe: str
    loss: dict[Label, float]
    rollouts: int
    tokens: int
    kept: int
    table: pa.Table | None
    path: Path | None
    assumptions: list[str]

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a polars frame, read back where they went to a file."""
        return pl.DataFrame(pq.read_table(self.path) if self.table is None else self.table)


@dataclass(frozen=True)
class Task:
    """What to replay, and how.

    Attributes:
        recipe: the recipe.
        batch: the batch scope, as ``iscope.engines.scopes.batch_scope`` returns it.
        unscored: leave loss tokens with an unusable logprob out, or give them ratio 1.
        device: where to replay; rows are made on the CPU.
    """

    recipe: BoundRecipe
    batch: str | int = "all"
    unscored: Literal["exclude", "neutral"] = "exclude"
    device: torch.device = CPU


def replay_dump(
    dump: Dump, task: Task, output: str | os.PathLike[str] | None = None, progress: Progress | None = None
) -> Replay:
    """Replay a recipe and put out its rows; the dump is read twice, first for what its loss is divided by.

    Args:
        dump: the dump, with ``step`` carried where that is the batch scope.
        task: what to replay.
        output: the Parquet file to write in place of a table in memory; one that is there is replaced.
        progress: called with the rollouts and tokens of each batch that is done.

    Raises:
        DataError: when the dump lacks a column that the recipe needs.
        UsageError: when the file cannot be written.
    """
    _check_needs(dump, task.recipe)
    path = None if output is None else output_path(output, (file.path for file in dump.files))
    scopes, sums = Scopes(task.batch), _Sums()
    kind = schema(dump.layout.dtype, {"iscope.recipe": task.recipe.spec, "iscope.batch": str(task.batch)})
    parts = _replayed(dump, task, scopes, kind, sums, progress)
    table = None
    if path is None:
        table = pa.Table.from_batches(list(parts), kind)
    else:
        with parquet_file(path, kind) as write:
            for part in parts:
                write(part)
    return Replay(
        recipe=task.recipe.spec,
        loss=sums.loss(scopes.labels) if _has_signal(dump, task.recipe) else {},
        rollouts=sums.rollouts,
        tokens=sums.tokens,
        kept=sums.kept,
        table=table,
        path=path,
        assumptions=_assumptions(dump, task, sums.unscored),
    )


@dataclass
class _Sums:
    """What is summed up while rows go out; losses are held per rollout, so that their order changes no bit."""

    rollouts: int = 0
    tokens: int = 0
    kept: int = 0
    unscored: int = 0
    losses: list[Tensor] = field(default_factory=lambda: [torch.zeros(0, dtype=torch.float64)])
    places: list[Tensor] = field(default_factory=lambda: [torch.zeros(0, dtype=torch.int64)])

    def add(self, outcome: Outcome, loss: Tensor | None, places: Tensor) -> None:
        self.rollouts += places.numel()
        self.tokens += outcome.segments.tokens
        self.kept += int(outcome.keep.sum())
        self.unscored += outcome.unscored
        if loss is not None:
            self.losses.append(loss)
            self.places.append(places)

    def loss(self, labels: list[Label]) -> dict[Label, float]:
        losses, places = torch.cat(self.losses).numpy(), torch.cat(self.places).numpy()
        offsets = np.zeros(len(labels) + 1, dtype=np.int64)
        np.cumsum(np.bincount(places, minlength=len(labels)), out=offsets[1:])
        ordered = torch.from_numpy(losses[np.lexsort((losses, places))])
        with np.errstate(invalid="ignore", over="ignore"):
            sums = Segments(torch.from_numpy(offsets)).sum(ordered)
        return dict(zip(labels, sums.tolist(), strict=True))


def _replayed(
    dump: Dump, task: Task, scopes: Scopes, kind: pa.Schema, sums: _Sums, progress: Progress | None
) -> Iterator[pa.RecordBatch]:
    cuts = find_cuts(dump.batches, (task.recipe,), task.unscored, task.batch)
    totals, means = _first_pass(dump, task, scopes, cuts)
    groups, by_group = Groups(), task.recipe.loss.aggregation.by_group
    for batch in decode_ahead(dump.batches()):
        places = torch.from_numpy(scopes.places(batch.columns, sums.rollouts))
        own = cuts_of(cuts, slice(sums.rollouts, sums.rollouts + len(batch)))
        outcome = _outcome(batch, task, own, None if means is None else means[places])
        numbers = groups.numbers(batch.columns, places) if by_group else None
        parts = divided(outcome, task.recipe, places, totals, numbers)
        sums.add(outcome, None if parts is None else parts[0], places)
        yield rows(batch, outcome, None if parts is None else parts[1], kind)
        if progress is not None:
            progress(len(batch), batch.tokens)


def _outcome(batch: RolloutBatch, task: Task, cuts: RowCuts, mean: Tensor | None = None) -> Outcome:
    """What the recipe does to a batch, replayed on the task's device."""
    with enough_memory():
        there = to_device(batch, task.device)
        mean = None if mean is None else mean.to(task.device)
        return replay_batch(there, task.recipe, task.unscored, mean, cuts_on(cuts, task.device)).cpu()


def _first_pass(dump: Dump, task: Task, scopes: Scopes, cuts: RowCuts) -> tuple[Totals, Tensor | None]:
    """What the loss of each batch is divided by, and its weights, where the recipe normalises them."""
    loss = task.recipe.loss
    drops = any(rule.drops for rule in task.recipe.filters) and not loss.denominator.counts_dropped
    means = BatchMeans(task.recipe) if task.recipe.weight.normalises else None
    totals, first, groups = Totals.zeros(len(scopes.labels)), 0, Groups()
    for batch in decode_ahead(dump.batches()):
        places = torch.from_numpy(scopes.places(batch.columns, first))
        left, counted = loss_tokens_of(batch), None
        if drops:
            own = cuts_of(cuts, slice(first, first + len(batch)))
            outcome = _outcome(batch, task, own)
            left, counted = outcome.loss_tokens, outcome.counted
        elif loss.denominator.counts == "filled":
            counted = left > 0
        numbers = groups.numbers(batch.columns, places) if loss.aggregation.by_group else None
        totals = totals.add(counted_tokens(loss, left), places, counted, numbers, rewarded(loss, batch.columns))
        if means is not None:
            with enough_memory():
                add_weights(means, to_device(batch, task.device), task.unscored, places)
        first += len(batch)
    return totals, None if means is None else means.means()


def _check_needs(dump: Dump, recipe: BoundRecipe) -> None:
    for name in recipe.needs:
        if name not in dump.present:
            file = dump.files[0].path if dump.files else "the batch given"
            short = name.removesuffix("_logprobs")
            side = "" if short == name else f", or give its files with --{short}"
            raise DataError(
                f"{file}: there is no column {name!r}, which {recipe.spec} needs; name it with "
                f"--columns {short}=NAME{side}."
            )


def _has_signal(dump: Dump, recipe: BoundRecipe) -> bool:
    return not needs_advantage(recipe.loss) or "advantage" in dump.present


def _assumptions(dump: Dump, task: Task, unscored: int) -> list[str]:
    said = [*dump.assumptions, f"the loss is normalised over the batch, and {in_words(task.batch)}."]
    if "current_logprobs" not in dump.present:
        said.append("on-policy assumed: no current logprobs, the trainer's stand in for them.")
    if task.recipe.weight.sign < 0:
        said.append(negative_weights(task.recipe))
    if not _has_signal(dump, task.recipe):
        said.append("the dump has no advantages: there is no loss, and every coefficient is null.")
    if unscored:
        fate = "count as ratio 1" if task.unscored == "neutral" else "are null and stay in the loss's denominators"
        said.append(f"{unscored:,} loss tokens with an unusable logprob {fate}.")
    left_out = sum(dump.tally.excluded.values())
    if left_out:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(dump.tally.excluded.items()))
        said.append(f"{left_out:,} rollouts that cannot be used are left out ({reasons}).")
    return said
