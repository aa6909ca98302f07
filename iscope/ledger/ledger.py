"""The ledger: one row per rollout of float64 sums and integer counts, histograms, and counts of what was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from iscope.errors import UsageError
from iscope.ledger import collected
from iscope.ledger.collected import RowsBuilder, put_together
from iscope.ledger.furthest import FurthestBuilder, furthest
from iscope.ledger.histogram import Counts
from iscope.ledger.measure import Measured
from iscope.ledger.plan import BATCH, ROLLOUT_COLUMNS, Plan
from iscope.ledger.rows import Held, LedgerRows
from iscope.ledger.sample import Sample, SampleBuilder, in_parts
from iscope.ledger.sweep.batch import added
from iscope.ledger.sweep.intervals import FamilySums
from iscope.ledger.tail import TailBuilder, Tails, merge_tails
from iscope.replay.usable import added_up
from iscope.rollouts import RolloutBatch


@dataclass(frozen=True)
class Ledger:
    """All that later steps read of a dump.

    Attributes:
        plan: what was measured.
        rows: one row per rollout, in canonical order.
        trained: rows of the rollouts that hold unscored loss tokens, measured again as their framework would have:
            every loss token in, NaN as ratio 1.
        histograms: token log-ratios by pair, and applied log-weights by recipe.
        unscored: unusable values by side and kind, tokens.
        rounded_positive: scored logprobs above 0, which are rounding.
        tails: the largest token log-ratios by pair, in rising order, nats.
        sample: some whole rollouts with their tokens, for the findings.
        sweeps: sums of the plan's families of settings.
        furthest: the rollouts whose log-ratios sum up furthest from 0, with their tokens.
    """

    plan: Plan
    rows: LedgerRows
    trained: LedgerRows
    histograms: dict[str, Counts]
    unscored: dict[str, dict[str, int]] = field(default_factory=dict)
    rounded_positive: int = 0
    tails: Tails = field(default_factory=dict)
    sample: Sample = field(default_factory=Sample.empty)
    sweeps: tuple[FamilySums | None, ...] = ()
    furthest: Sample = field(default_factory=Sample.empty)

    def merge(self, other: Ledger) -> Ledger:
        """Put two ledgers of one plan together.

        Raises:
            UsageError: when their plans differ, or their batches are rollouts in a row.
        """
        return merged([self, other])


def merged(ledgers: Sequence[Ledger]) -> Ledger:
    """Put ledgers of one plan together, at least one, in any order: it is the ledger of their dumps as one.

    Raises:
        UsageError: when their plans differ, or their batches are rollouts in a row.
    """
    plan = ledgers[0].plan
    if len({ledger.plan.fingerprint() for ledger in ledgers}) > 1:
        raise UsageError("these ledgers were measured with different plans and cannot be put together.")
    if plan.batch_column == BATCH:
        raise UsageError(
            f"batches of {plan.batch} rollouts in a row are told apart only in a dump that is read as a whole; "
            "measure the parts with the batch all or step."
        )
    sample = ledgers[0].sample
    for ledger in ledgers[1:]:
        sample = sample.merge(ledger.sample)
    return Ledger(
        plan=plan,
        rows=put_together([ledger.rows for ledger in ledgers]),
        trained=put_together([ledger.trained for ledger in ledgers]),
        histograms=_add_counts([ledger.histograms for ledger in ledgers]),
        unscored=added_up([ledger.unscored for ledger in ledgers]),
        rounded_positive=sum(ledger.rounded_positive for ledger in ledgers),
        tails=merge_tails([ledger.tails for ledger in ledgers]),
        sample=sample,
        sweeps=added([ledger.sweeps for ledger in ledgers]),
        furthest=furthest([ledger.furthest for ledger in ledgers]),
    )


class LedgerBuilder:
    """Collects what batches add, in any order."""

    def __init__(self, plan: Plan) -> None:
        """Start an empty ledger of a plan."""
        self.plan = plan
        self._rows = RowsBuilder()
        self._trained = RowsBuilder()
        self._histograms: dict[str, Counts] = {}
        self._unscored: dict[str, dict[str, int]] = {}
        self._rounded_positive = 0
        self._tails = TailBuilder()
        self._sample = SampleBuilder()
        self._sweeps: list[tuple[FamilySums | None, ...]] = []
        self._furthest = FurthestBuilder()

    @property
    def floors(self) -> dict[str, float]:
        """What a token's log-ratio must exceed to count among the largest of the dump, by pair."""
        return self._tails.floors

    def add(self, batches: Sequence[RolloutBatch], measured: Measured) -> None:
        """Add batches that were measured together.

        Raises:
            UsageError: when there are more rows than memory is to hold, and the disk has no room for them.
        """
        described = [_described(batch, self.plan) for batch in batches]
        self._rows.add(described, measured.columns)
        if measured.trained:
            rows = in_parts(measured.trained_rows.numpy(), batches)
            self._trained.add([part[own] for part, own in zip(described, rows, strict=True)], measured.trained)
        most = collected.most_held(beside_files=self._rows.spilled or self._trained.spilled)
        while self._rows.held + self._trained.held > most:
            max(self._rows, self._trained, key=lambda rows: rows.held).spill()
        self._histograms = _add_counts([self._histograms, measured.histograms])
        self._unscored = added_up([self._unscored, measured.unscored])
        self._rounded_positive += measured.rounded_positive
        self._tails.add(measured.tails)
        self._sample.add(batches, measured, described)
        self._sweeps.append(measured.sweeps)
        self._furthest.add(batches, measured, described)

    def finish(self) -> Ledger:
        """Return the ledger of everything added, which is gone then; at least one batch must have been added.

        Raises:
            UsageError: when there are more rows than memory is to hold, and the disk has no room for them.
        """
        rows = self._rows.finish()
        assert rows is not None
        return Ledger(
            plan=self.plan,
            rows=rows,
            trained=self._trained.finish() or _none_like(rows),
            histograms=self._histograms,
            unscored=self._unscored,
            rounded_positive=self._rounded_positive,
            tails=self._tails.finish(),
            sample=self._sample.finish(),
            sweeps=added(self._sweeps),
            furthest=self._furthest.finish(),
        )


def _none_like(rows: LedgerRows) -> LedgerRows:
    """No rows, of the same columns."""
    first = rows.pieces[0]
    return LedgerRows.of(first.frame.clear() if isinstance(first, Held) else pl.DataFrame(schema=rows.schema))


def _described(batch: RolloutBatch, plan: Plan) -> pl.DataFrame:
    """The rollout columns of a batch in the ledger's types: counts and ids as they are, versions as numbers."""
    batch_number = (BATCH,) if plan.batch_column == BATCH else ()
    wanted = dict.fromkeys(["rollout_id", *ROLLOUT_COLUMNS, *plan.carry, *batch_number])
    parts = [part for name in wanted if name in batch.columns for part in _plain(batch.columns[name])]
    columns = {part.name: part for part in parts}
    if batch.advantage is not None and not batch.advantage_per_token:
        columns["advantage"] = pl.Series("advantage", batch.advantage.numpy())
    return pl.DataFrame(list(columns.values()))


def _plain(series: pl.Series) -> list[pl.Series]:
    """A list per rollout (the version of each token) becomes its mean, with ``_min`` and ``_max`` beside it."""
    if isinstance(series.dtype, pl.Array):
        series = series.arr.to_list()
    if isinstance(series.dtype, pl.List):
        lists = series.cast(pl.List(pl.Float64), strict=False).list
        reduced = {"": lists.mean(), "_min": lists.min(), "_max": lists.max()}
        return [values.alias(series.name + suffix) for suffix, values in reduced.items()]
    if series.dtype == pl.UInt64 and series.name not in ROLLOUT_COLUMNS:
        return [series]
    if series.dtype.is_integer():
        # A version that has no place there, as 2^64 - 1 for one that is not known, is missing.
        return [series.cast(pl.Int64, strict=False)]
    return [series.cast(pl.Float64 if series.dtype.is_float() else pl.String)]


def _add_counts(parts: Sequence[Mapping[str, Counts]]) -> dict[str, Counts]:
    total: dict[str, Counts] = {}
    for part in parts:
        for name, counts in part.items():
            total[name] = total[name] + counts if name in total else counts
    return total
