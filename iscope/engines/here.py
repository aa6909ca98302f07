"""The local engine part by part: for work that is to be kept as it is done."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iscope.dump.units import Unit
from iscope.engines.in_parts import Failed, measured_singly
from iscope.engines.job import Job
from iscope.engines.local import Progress
from iscope.errors import DataError
from iscope.ledger.part import Part

# Tokens of the first part, before it is known how long one takes: a fraction of a second.
_FIRST = 2**22


@dataclass(frozen=True)
class Local:
    """This process and its threads.

    Attributes:
        every: seconds of work that a part is to be; at 0 each unit is one.
    """

    every: float = 30.0

    def parts(
        self, job: Job, units: Sequence[Unit], progress: Progress | None, *, tolerant: bool
    ) -> Iterator[Part | Failed]:
        """Yield parts of neighbouring units; see ``Engine.parts``."""
        tokens, rest = (_FIRST if self.every > 0 else 0), list(units)
        while rest:
            chosen, rest = _first(rest, tokens)
            started = time.monotonic()
            try:
                yield job.measure(chosen, progress)
            except DataError:
                if not tolerant:
                    raise
                yield from measured_singly(job, chosen)
            speed = sum(unit.tokens for unit in chosen) / max(time.monotonic() - started, 1e-6)
            tokens = int(speed * self.every)


def _first(units: Sequence[Unit], tokens: int) -> tuple[list[Unit], list[Unit]]:
    """The first units of so many tokens, at least one, and the rest."""
    held = count = 0
    while count < len(units) and (not count or held + units[count].tokens <= tokens):
        held += units[count].tokens
        count += 1
    return list(units[:count]), list(units[count:])
