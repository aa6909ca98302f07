"""What a pass over a dump counts, and the exclusion of bad rows that it counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from iscope.dump.ragged import Flags
from iscope.dump.table import Block
from iscope.errors import DataError


@dataclass
class Tally:
    """Counters, filled while the batches of a dump are consumed.

    Attributes:
        rollouts_read: rollouts asked for, those left out included; of paired sides, distinct keys over all of them.
        not_selected: rollouts that were not asked for.
        excluded: rollouts left out, by reason.
        conflicts: rollouts on which the two sides disagree, by shared column.
        side_files: files read, by side.
        pairing: joined rollouts by how the token ids of their sides compare.
    """

    rollouts_read: int = 0
    not_selected: int = 0
    excluded: dict[str, int] = field(default_factory=dict)
    conflicts: dict[str, int] = field(default_factory=dict)
    side_files: dict[str, int] = field(default_factory=dict)
    pairing: dict[str, int] = field(default_factory=dict)

    def deselect(self, rollouts: int) -> None:
        """Count rollouts that were met but not asked for."""
        self.rollouts_read -= rollouts
        self.not_selected += rollouts

    def exclude(self, reason: str, rollouts: int) -> None:
        """Count rollouts that are left out."""
        if rollouts:
            self.excluded[reason] = self.excluded.get(reason, 0) + rollouts

    def conflict(self, column: str, rollouts: int) -> None:
        """Count rollouts on which the sides disagree about a shared column."""
        if rollouts:
            self.conflicts[column] = self.conflicts.get(column, 0) + rollouts

    def compared(self, verdicts: Mapping[str, int]) -> None:
        """Count joined rollouts by verdict on their token ids."""
        for verdict, rollouts in verdicts.items():
            self.pairing[verdict] = self.pairing.get(verdict, 0) + rollouts


def merged(tallies: Sequence[Tally]) -> Tally:
    """Return what several portions of a dump counted, together."""
    total = Tally()
    for tally in tallies:
        total.rollouts_read += tally.rollouts_read
        total.not_selected += tally.not_selected
        for reason, rollouts in tally.excluded.items():
            total.exclude(reason, rollouts)
        for column, rollouts in tally.conflicts.items():
            total.conflict(column, rollouts)
        total.compared(tally.pairing)
    return total


@dataclass(frozen=True)
class Fault:
    """A reason to leave rollouts out.

    Attributes:
        reason: what the report counts them under.
        flags: bool [N], the rollouts it applies to.
        message: what is wrong with such a row, to follow "row 3: ".
    """

    reason: str
    flags: Flags
    message: str


def leave_out(block: Block, faults: Iterable[Fault], tally: Tally, *, strict: bool) -> Block:
    """Return a block without its faulty rows, each counted under the first fault that applies.

    Raises:
        DataError: when ``strict`` and there is one.
    """
    keep = np.ones(len(block), dtype=np.bool_)
    for fault in faults:
        new = fault.flags & keep
        if strict and new.any():
            row = block.rows[int(np.argmax(new))]
            raise DataError(f"{block.file}: row {row}: {fault.message}; without --strict such rows are left out.")
        tally.exclude(fault.reason, int(new.sum()))
        keep &= ~new
    return block if keep.all() else block.filter(keep)
