"""A dump measured in parts: by which engine, and kept where."""

from __future__ import annotations

import os
from contextlib import closing, nullcontext
from dataclasses import dataclass

from iscope.dump.dump import Dump
from iscope.dump.record import Record
from iscope.engines import in_parts
from iscope.engines.here import Local
from iscope.engines.in_parts import Engine
from iscope.engines.job import Job
from iscope.engines.local import Progress
from iscope.engines.named import engine_of
from iscope.engines.state import State
from iscope.errors import DataError, UsageError
from iscope.ledger.ledger import Ledger
from iscope.ledger.plan import Plan


@dataclass(frozen=True)
class How:
    """How a dump is measured.

    Attributes:
        engine: the engine, or its name.
        resume: the folder where parts are kept; None keeps none.
        resume_every: seconds of work that a part of the local engine is to be.
        allow_missing: leave units out that cannot be measured.
    """

    engine: str | Engine = "local"
    resume: str | os.PathLike[str] | None = None
    resume_every: float = 30.0
    allow_missing: bool = False


def measure_in_parts(plan: Plan, dump: Dump, how: How, progress: Progress | None = None) -> tuple[Ledger, Record]:
    """Measure a dump part by part and return its ledger and its record.

    Raises:
        UsageError: an engine that is not there, a plan or a dump that cannot be measured in parts, a folder that cannot
            be used.
        DataError: when a file cannot be read, or none of the rollouts can be used.
    """
    if not 0 <= how.resume_every < float("inf"):
        raise UsageError(f"resume_every must be a number of seconds from 0, not {how.resume_every}.")
    engine = engine_of(how.engine) or Local(how.resume_every)
    job = Job.of(plan, dump)
    with nullcontext() if how.resume is None else closing(State(how.resume, job)) as state:
        measured, record = in_parts.run(job, engine, state=state, allow_missing=how.allow_missing, progress=progress)
    refuse_nothing(measured, record)
    return measured, record


def refuse_nothing(measured: Ledger, dump: Dump | Record) -> None:
    """Every rollout left out is no report, but one sentence that says why.

    Raises:
        DataError: when it is so.
    """
    excluded = {reason: count for reason, count in sorted(dump.tally.excluded.items()) if count}
    if excluded and not measured.rows.height and not dump.tally.not_selected:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in excluded.items())
        raise DataError(
            f"{dump.files[0].path}: none of its {dump.tally.rollouts_read:,} rollouts can be used ({reasons}); "
            "strict (--strict) names the first of them."
        )
