"""What a report says of the dump itself: its files, what reading it counted and assumed, what is missing of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from iscope.dump.dump import Dump, DumpFile
from iscope.dump.supplied import Supplied, supplied_ratios
from iscope.dump.tally import Tally


@dataclass(frozen=True)
class Missing:
    """What was left out of a dump, as asked for.

    Attributes:
        units: units that were not measured.
        of_units: units of the dump.
        rows: rollouts of the former.
        of_rows: rollouts of the dump.
        why: what is missing, to follow "missing: ".
    """

    units: int
    of_units: int
    rows: int
    of_rows: int
    why: str

    def sentence(self) -> str:
        """Return what the report says of it."""
        return (
            f"{self.units:,} of {self.of_units:,} units of the dump ({self.rows:,} of {self.of_rows:,} rollouts) are "
            f"MISSING from every figure: {self.why}."
        )


@dataclass(frozen=True)
class Record:
    """A dump that was read, in so far as a report speaks of it.

    Attributes:
        files: what it consists of.
        tally: what was counted meanwhile.
        assumptions: what had to be assumed, one sentence each.
        supplied: ratios that it brings along.
        missing: what of it was left out; None where nothing was.
    """

    files: list[DumpFile]
    tally: Tally
    assumptions: list[str]
    supplied: Sequence[Supplied] = ()
    missing: Missing | None = None

    @classmethod
    def of(cls, dump: Dump) -> Record:
        """Take the record of a dump that was read to its end."""
        return cls(dump.files, dump.tally, dump.assumptions, supplied_ratios(dump))

    @classmethod
    def of_footers(cls, dump: Dump) -> Record:
        """Take the record of a dump without the ratios it may bring along, for which no file is read."""
        return cls(dump.files, dump.tally, dump.assumptions)

    def of_parts(self, tallies: Sequence[Tally], missing: Missing | None = None) -> Record:
        """Return the record of the whole dump that was read in parts."""
        said = [*self.assumptions, *([missing.sentence()] if missing else [])]
        return replace(self, tally=_sum(tallies), assumptions=said, missing=missing)

    @property
    def notes(self) -> dict[str, int]:
        """Counts worth saying, by what they count; those of nothing are left out."""
        tally = self.tally
        notes = {f"conflicting_{column}": count for column, count in sorted(tally.conflicts.items())}
        notes |= {f"pairing_{verdict}": count for verdict, count in tally.pairing.items()}
        notes["not_selected"] = tally.not_selected
        if self.missing is not None:
            notes |= {"missing_units": self.missing.units, "missing_rollouts": self.missing.rows}
        return {name: count for name, count in notes.items() if count}

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values, without what is missing, the ratios, and which columns of the files are what."""
        return {
            "files": [{"path": file.path, "size": file.size, "rows": file.rows} for file in self.files],
            "tally": asdict(self.tally),
            "assumptions": self.assumptions,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Record:
        """Read what ``to_dict`` wrote."""
        return cls([DumpFile(**file) for file in data["files"]], Tally(**data["tally"]), data["assumptions"])


def _sum(tallies: Sequence[Tally]) -> Tally:
    """The tally of the parts together; reasons in the order of their names."""
    total = Tally()
    counters: dict[str, Counter[str]] = {name: Counter() for name in ("excluded", "conflicts", "pairing")}
    for tally in tallies:
        total.rollouts_read += tally.rollouts_read
        total.not_selected += tally.not_selected
        for name, counter in counters.items():
            counter.update(getattr(tally, name))
    for name, counter in counters.items():
        setattr(total, name, dict(sorted(counter.items())))
    return total
