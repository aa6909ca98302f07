"""Parts put together, refused where they do not belong together or hold a unit twice."""

from __future__ import annotations

from iscope.dump.record import Missing
from iscope.dump.tally import Tally
from iscope.errors import UsageError
from iscope.ledger import collected
from iscope.ledger.ledger import Ledger, merged
from iscope.ledger.part import Part, Whole

# Ledgers held at a time before they are made one, and rollouts of their samples: each has a sample of up to a million
# tokens, or 131,072 rollouts.
_HELD, _SAMPLED = 16, 2**18


class Gathering:
    """Takes parts in any order.

    Attributes:
        whole: what the parts are of; None before the first.
        tallies: what was counted, part by part.
        rows: rollouts of the parts so far.
    """

    def __init__(self) -> None:
        """Start without any."""
        self.whole: Whole | None = None
        self.tallies: list[Tally] = []
        self.rows = 0
        self._first = ""
        self._ledgers: list[Ledger] = []
        self._names: dict[str, str] = {}

    @property
    def units(self) -> int:
        """Units of the parts so far."""
        return len(self._names)

    def add(self, part: Part, name: str) -> None:
        """Take a part.

        Args:
            part: the part.
            name: what errors call it.

        Raises:
            UsageError: when it is of another plan or dump than the first, or holds a unit that an earlier one holds.
        """
        if self.whole is None:
            self.whole, self._first = part.whole, name
        why = difference(part.whole, self.whole)
        if why:
            raise UsageError(f"{name}: this part was measured {why} than {self._first}; put parts of one run together.")
        doubled = [unit for unit in part.units if unit in self._names]
        if doubled:
            raise UsageError(
                f"{name}: {len(doubled):,} of its {len(part.units):,} units are in {self._names[doubled[0]]} too; name "
                "each part once."
            )
        self._names |= dict.fromkeys(part.units, name)
        self.tallies.append(part.tally)
        self.rows += part.rows
        self._ledgers.append(part.ledger)
        if self._many():
            self._ledgers = [merged(self._ledgers)]

    def _many(self) -> bool:
        """Whether the ledgers take more memory apart than as one."""
        rows = sum(ledger.rows.estimated_size() for ledger in self._ledgers)
        sampled = sum(len(ledger.sample) for ledger in self._ledgers)
        return len(self._ledgers) >= _HELD or rows > collected.HELD or sampled > _SAMPLED

    def missing(self, why: str) -> Missing | None:
        """Return what the parts so far lack of the dump; None where they are all of it."""
        whole = self.whole
        if whole is None or self.units == whole.units:
            return None
        return Missing(whole.units - self.units, whole.units, whole.rows - self.rows, whole.rows, why)

    def finish(self) -> Ledger:
        """Return the ledger of all parts; there must be one."""
        return merged(self._ledgers)


def difference(part: Whole, whole: Whole) -> str:
    """Say what tells two wholes apart, to stand between "measured" and "than"; empty where nothing does."""
    if part.iscope != whole.iscope:
        return f"by another version of iscope ({part.iscope}, not {whole.iscope})"
    if part.plan != whole.plan:
        return "with another plan (recipes, bounds or options)"
    if part != whole:
        return "on another dump, or on one that was read in another way or has changed"
    return ""
