"""What figures read: the rows of a ledger and of one policy pair, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
import polars as pl

from iscope.analysis.intervals.clusters import Clusters, cluster_codes
from iscope.analysis.numbers import Array
from iscope.ledger.histogram import Counts
from iscope.ledger.ledger import Ledger
from iscope.ledger.rows import LedgerRows, Recent
from iscope.ledger.tail import Tails
from iscope.recipes.model import Pair, Signs

T = TypeVar("T")


@dataclass(frozen=True)
class Rows:
    """Rollouts of a ledger.

    Attributes:
        frame: the rows, one per rollout.
        histograms: counts over the tokens of these rows; empty for a part of a dump.
        without: rollouts of the batch that have no scored token and so no row here, and their loss tokens: a
            framework's denominators count them.
        tails: the largest token log-ratios by pair, nats; empty for a part of a dump.
        rest: the rollouts that have no scored token; None where the frame holds all.
        batch_column: the column that tells batches apart; None where all rollouts are one batch.
        bounded: whether figures over these rows get intervals.
    """

    frame: LedgerRows
    histograms: dict[str, Counts]
    without: tuple[int, int] = (0, 0)
    tails: Tails = field(default_factory=dict)
    rest: LedgerRows | None = None
    batch_column: str | None = None
    bounded: bool = True
    _memo: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def rollouts(self) -> int:
        """N."""
        return self.frame.height

    @cached_property
    def _recent(self) -> Recent[Array]:
        return Recent(self.rollouts)

    @cached_property
    def n(self) -> Array:
        """Scored tokens of each rollout."""
        return self["scored"]

    @cached_property
    def tokens(self) -> int:
        """Scored tokens in all."""
        return int(self.n.sum())

    @cached_property
    def cluster_codes(self) -> Array:
        """Int64 [N], equal for rollouts of one group; a rollout without a group is on its own."""
        if "group_id" not in self:
            return np.arange(self.rollouts)
        return cluster_codes(self.frame.select(["group_id"]))

    @cached_property
    def clusters(self) -> Clusters:
        """What is resampled together for intervals; all of it, which gives none, where they are not wanted."""
        return Clusters.of(self.cluster_codes if self.bounded else np.zeros(self.rollouts, dtype=np.int64))

    @property
    def advantage(self) -> Array:
        """The advantage of each rollout [N], NaN where the dump has none per rollout."""
        return self["advantage"] if "advantage" in self else np.full(self.rollouts, np.nan)

    @property
    def batch_loss_tokens(self) -> int:
        """Loss tokens of the batch, scored or not."""
        return int(self["loss_tokens"].sum()) + self.without[1]

    @cached_property
    def batch_frame(self) -> LedgerRows:
        """The rows [N] and below them those of the rest."""
        return self.frame if self.rest is None or not self.rest.height else LedgerRows.stacked([self.frame, self.rest])

    @cached_property
    def batch_places(self) -> Array:
        """The batch of each row of the batch frame, int64."""
        frame = self.batch_frame
        if self.batch_column is None:
            return np.zeros(frame.height, dtype=np.int64)
        return (frame[self.batch_column].rank("dense").cast(pl.Int64) - 1).to_numpy(writable=True)

    @cached_property
    def batches(self) -> int:
        """How many batches there are, at least one."""
        return 1 if self.batch_column is None else max(1, int(self.batch_places.max(initial=0)) + 1)

    def __getitem__(self, name: str) -> Array:
        """Return a column as an array."""
        column = self.frame[name]
        return _flags(column) if column.dtype == pl.Boolean else column.to_numpy()

    def __contains__(self, name: str) -> bool:
        """Whether the rows have this column."""
        return name in self.frame.schema

    def with_sign(self, signs: Signs) -> Array | None:
        """Flag the rollouts whose advantage has a sign [N]; None where there is no advantage per rollout."""
        if signs is Signs.ANY:
            return np.ones(self.rollouts, dtype=bool)
        if "advantage" not in self:
            return None
        advantage = self["advantage"]
        flags: Array = {
            Signs.POSITIVE: advantage > 0,
            Signs.NON_POSITIVE: advantage <= 0,
            Signs.NEGATIVE: advantage < 0,
            Signs.NON_NEGATIVE: advantage >= 0,
            Signs.ZERO: advantage == 0,
        }[signs]
        return flags

    def once(self, what: Hashable, make: Callable[[], T]) -> T:
        """Return what ``make`` returns, made once for all figures that ask for it under this name; no arrays [N]."""
        if what not in self._memo:
            self._memo[what] = make()
        return cast("T", self._memo[what])

    def recent(self, what: Hashable, make: Callable[[], Array]) -> Array:
        """Return the array [N], or [k, N], that ``make`` returns; it is made again where there was no room."""
        found = self._recent.get(what)
        if found is None:
            found = make()
            self._recent.put(what, found, found.nbytes)
        return found

    def resolve(self, pair: Pair) -> Pair:
        """The pair that was measured for this one: without current logprobs the trainer's stand in for them."""
        return pair if f"{pair}:log_ratio_sum" in self else Pair.TRAINER_INFERENCE

    def pair(self, name: str, pair: Pair = Pair.TRAINER_INFERENCE) -> Array:
        """Return a column of a policy pair."""
        return self[f"{self.resolve(pair)}:{name}"]

    def pair_total(self, name: str, pair: Pair = Pair.TRAINER_INFERENCE) -> float:
        """Sum of a column of a policy pair."""
        return float(self.pair(name, pair).sum())

    def log_ratio(self, level: str, pair: Pair = Pair.TRAINER_INFERENCE) -> Array:
        """S (``sequence``) or G = S / n (``geometric``) of each rollout, nats."""
        total = self.pair("log_ratio_sum", pair)
        return total / np.maximum(self.n, 1) if level == "geometric" else total


def _flags(column: pl.Series) -> Array:
    """Flags as an array, which polars takes several times as long for."""
    if column.null_count() or not len(column):
        return column.to_numpy()
    bits = column.to_arrow()
    packed = np.frombuffer(bits.buffers()[1], np.uint8)
    return np.unpackbits(packed, count=bits.offset + len(bits), bitorder="little")[bits.offset :].view(np.bool_)


def scored_rows(ledger: Ledger) -> Rows:
    """Rollouts with at least one scored token: what every figure of the report is over."""
    scored = ledger.rows["scored"].to_numpy() > 0
    rest = ledger.rows.chosen(np.flatnonzero(~scored))
    without = (rest.height, int(rest["loss_tokens"].cast(pl.Int64).sum()))
    return Rows(ledger.rows.where(scored), ledger.histograms, without, ledger.tails, rest, ledger.plan.batch_column)


def trained_rows(ledger: Ledger) -> Rows:
    """Every rollout as its framework saw it: empty ones in, unscored loss tokens by the framework's convention."""
    untouched = ledger.rows.where((ledger.rows["loss_tokens"] == ledger.rows["usable_tokens"]).to_numpy())
    return Rows(LedgerRows.stacked([untouched, ledger.trained]) if ledger.trained.height else untouched, {})
