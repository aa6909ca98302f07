"""A dump: what is in it, and its rollouts as a restartable stream of batches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeAlias

import polars as pl
import pyarrow as pa
import torch

from iscope.dump.arrow_types import textual
from iscope.dump.convert import Layout, to_batch
from iscope.dump.pack import repack, rows_of, select
from iscope.dump.pairing import Pairing
from iscope.dump.screen import screen
from iscope.dump.table import Block, Table
from iscope.dump.tally import Tally
from iscope.dump.where import Where
from iscope.rollouts import LOGPROBS, RolloutBatch

PathOrFrame: TypeAlias = str | os.PathLike[str] | pl.DataFrame | pa.Table
Source: TypeAlias = PathOrFrame | RolloutBatch


@dataclass(frozen=True)
class Sides:
    """The sides of a dump whose policies were written by different processes.

    Attributes:
        trainer: files, folders, globs or tables with the trainer logprobs.
        inference: those with the inference logprobs.
        current: those with the current logprobs, if any.
        ref: those with the reference logprobs, if any.
        on: the column that says which rows belong together.
    """

    trainer: PathOrFrame | Sequence[PathOrFrame] = ()
    inference: PathOrFrame | Sequence[PathOrFrame] = ()
    current: PathOrFrame | Sequence[PathOrFrame] = ()
    ref: PathOrFrame | Sequence[PathOrFrame] = ()
    on: str = "rollout_id"


@dataclass(frozen=True)
class DumpFile:
    """One file or table of a dump, for the record.

    Attributes:
        path: its path, or the name given to a table in memory.
        size: bytes.
        rows: rollouts.
        side: the side it belongs to; empty where its rows hold both sides.
        columns: canonical column to the column of the file that was taken for it.
    """

    path: str
    size: int
    rows: int
    side: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Dump:
    """Rollouts to be read, as often as wanted.

    Attributes:
        files: what it consists of.
        present: the canonical columns found.
        assumptions: what had to be assumed, one sentence each.
        carried: the further columns that each batch's ``columns`` holds.
        tally: the counters of the latest pass, complete when it is.
        content: where blocks come from.
        ready: batches that were in memory to begin with.
        layout: how blocks become batches.
        batch_tokens: tokens a batch has at most, unless a single rollout has more.
        strict: whether a row that cannot be used is an error.
        where: the rollouts asked for; None is all of them.
    """

    files: list[DumpFile]
    present: frozenset[str]
    assumptions: list[str]
    carried: tuple[str, ...]
    content: Table | Pairing | None
    ready: Sequence[RolloutBatch]
    layout: Layout
    batch_tokens: int
    strict: bool
    where: Where | None = None
    tally: Tally = field(default_factory=Tally)

    def batches(self) -> Iterator[RolloutBatch]:
        """Yield every usable rollout once, in the dump's order, and fill a fresh ``tally`` meanwhile.

        There is at least one batch, if only an empty one. The tensors may share read-only memory with Arrow: they must
        not be written to.

        Raises:
            UsageError: when the condition on rollouts cannot be evaluated.
            DataError: when a file cannot be read, lists of one row differ in length, or a row is bad and ``strict``.
        """
        self.tally = tally = Tally()
        for file in self.files:
            if file.side:
                tally.side_files[file.side] = tally.side_files.get(file.side, 0) + 1
        batch = None
        for batch in chain(repack(self._converted(tally), self.batch_tokens), self._ready(tally)):
            yield batch
        if batch is None:
            yield self._nothing()

    def blocks(self) -> Iterator[Block]:
        """Yield the rows as they are, unusable ones included and sides joined, and fill a fresh ``tally`` meanwhile.

        Batches that were in memory to begin with are left aside.

        Raises:
            DataError: when a file cannot be read, or lists of one row differ in length.
        """
        self.tally = Tally()
        yield from self._blocks(self.tally)

    def _converted(self, tally: Tally) -> Iterator[RolloutBatch]:
        for block in self._blocks(tally):
            usable = screen(block, tally, strict=self.strict)
            if len(usable):
                yield to_batch(usable, self.layout)

    def _blocks(self, tally: Tally) -> Iterator[Block]:
        if isinstance(self.content, Pairing):
            yield from self.content.blocks(self.batch_tokens, tally, self.where)
        elif self.content is not None:
            for block in self.content.blocks(self.batch_tokens, where=self.where):
                tally.rollouts_read += len(block)
                yield block
            tally.not_selected += self.content.rows - tally.rollouts_read

    def _ready(self, tally: Tally) -> Iterator[RolloutBatch]:
        for batch in self.ready:
            chosen = batch if self.where is None else select(batch, self.where.flags(described(batch)))
            tally.rollouts_read += len(chosen)
            tally.not_selected += len(batch) - len(chosen)
            if len(chosen):
                yield _cast(chosen, self.layout.dtype)

    def _nothing(self) -> RolloutBatch:
        """A batch of no rollouts that has every column of the dump."""
        if self.content is not None and self.content.columns:
            return to_batch(self.content.nothing(), self.layout)
        return _cast(rows_of(self.ready[0], 0, 0), self.layout.dtype)


def described(batch: RolloutBatch) -> pl.DataFrame:
    """The columns of a batch's rollouts, the advantage included where it is one per rollout."""
    if batch.advantage is None or batch.advantage_per_token:
        return batch.columns
    return batch.columns.with_columns(advantage=pl.Series(batch.advantage.numpy()))


def _cast(batch: RolloutBatch, dtype: torch.dtype) -> RolloutBatch:
    lists = {name: values.to(dtype) for name in LOGPROBS if (values := getattr(batch, name)) is not None}
    texts = [pl.Series(one.name, textual(one.to_arrow())) for one in batch.columns if one.dtype == pl.Binary]
    return replace(batch, columns=batch.columns.with_columns(texts), **lists)
