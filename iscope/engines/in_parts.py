"""A job run by an engine, part by part, and the parts put together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from iscope.dump.record import Record
from iscope.dump.units import Unit
from iscope.engines.gather import Gathering
from iscope.engines.job import Job
from iscope.engines.local import Progress
from iscope.engines.state import State
from iscope.errors import DataError, IscopeError
from iscope.ledger.ledger import Ledger
from iscope.ledger.part import Part


@dataclass(frozen=True)
class Failed:
    """A unit that could not be measured, and why."""

    unit: Unit
    error: IscopeError


class Engine(Protocol):
    """What measures the units of a job, in whatever order and grouping: the ledger of all parts is the same."""

    def parts(
        self, job: Job, units: Sequence[Unit], progress: Progress | None, *, tolerant: bool
    ) -> Iterator[Part | Failed]:
        """Yield parts that hold each unit once, as they are done.

        Args:
            job: the job.
            units: those of its units that are to be measured.
            progress: called with rollouts and tokens that are done.
            tolerant: yield ``Failed`` for units that cannot be read or whose worker is lost, and go on.

        Raises:
            IscopeError: when a unit cannot be measured, unless ``tolerant``.
        """


def run(
    job: Job,
    engine: Engine,
    *,
    state: State | None = None,
    allow_missing: bool = False,
    progress: Progress | None = None,
) -> tuple[Ledger, Record]:
    """Measure a dump part by part.

    Args:
        job: the job.
        engine: what measures its units.
        state: where parts are kept as they are done, and taken from where they were done before.
        allow_missing: leave units out that cannot be measured; the record says so.
        progress: called with rollouts and tokens that are done.

    Returns:
        The ledger of the dump and its record.

    Raises:
        UsageError: when a part cannot be written.
        DataError: when a file cannot be read.
    """
    gathering, failed = Gathering(), []
    done = state.done if state is not None else set()
    left = [unit for unit in job.units if unit.id not in done]
    if progress is not None and len(left) < len(job.units):
        before = [unit for unit in job.units if unit.id in done]
        progress(sum(unit.rows for unit in before), sum(unit.tokens for unit in before))
    for part in engine.parts(job, left, progress, tolerant=allow_missing):
        if isinstance(part, Failed):
            failed.append(part)
        elif state is not None:
            state.keep(part)
        else:
            gathering.add(part, "a part")
    if state is not None:
        for name, kept in state.parts():
            gathering.add(replace(kept, ledger=replace(kept.ledger, plan=job.plan)), name)
    if failed and not gathering.units:
        raise failed[0].error
    record = Record.of_footers(job.dump) if failed else Record.of(job.dump)
    return gathering.finish(), record.of_parts(gathering.tallies, gathering.missing(_why(failed)))


def measured_singly(job: Job, units: Sequence[Unit], workers: int | None = None) -> Iterator[Part | Failed]:
    """Measure units one by one, so that those that can be measured are."""
    for unit in units:
        try:
            yield job.measure([unit], workers=workers)
        except DataError as error:
            yield Failed(unit, error)


def _why(failed: Sequence[Failed]) -> str:
    named = [f"{one.unit} ({str(one.error).rstrip('.')})" for one in failed[:3]]
    more = f" and {len(failed) - len(named):,} more" if len(failed) > len(named) else ""
    return "; ".join(named) + more
