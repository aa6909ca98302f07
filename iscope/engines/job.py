"""A job: a plan, a dump cut into units, and the function that measures some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iscope import __version__
from iscope.dump.dump import Dump
from iscope.dump.units import Unit, digest_of, dump_of, units_of
from iscope.engines import local
from iscope.engines.local import Progress
from iscope.engines.scopes import scoped
from iscope.errors import UsageError
from iscope.ledger.part import Asked, Part, Whole
from iscope.ledger.plan import Plan
from iscope.replay.dump_cuts import DumpCuts


@dataclass(frozen=True)
class Job:
    """What is measured in parts.

    Attributes:
        plan: the plan.
        dump: the dump.
        units: all units of the dump.
        whole: what its parts have in common.
    """

    plan: Plan
    dump: Dump
    units: tuple[Unit, ...]
    whole: Whole

    @classmethod
    def of(cls, plan: Plan, dump: Dump) -> Job:
        """Cut a dump into units.

        Raises:
            UsageError: when the plan looks at the whole dump at once, or the dump cannot be cut.
            DataError: when a file cannot be read.
        """
        check_plan(plan)
        units = tuple(units_of(dump))
        rows = sum(unit.rows for unit in units)
        whole = Whole(plan.fingerprint(), digest_of(dump, units), len(units), rows, __version__)
        return cls(plan, dump, units, whole)

    def measure(
        self,
        units: Sequence[Unit],
        progress: Progress | None = None,
        workers: int | None = None,
        asked: Asked | None = None,
    ) -> Part:
        """Measure some units; the part is the same wherever that is done, and by however many threads.

        Raises:
            DataError: when a file cannot be read.
        """
        dump = dump_of(self.dump, units)
        ledger = local.run(scoped(dump.batches(), self.plan.batch), self.plan, progress, {}, workers)
        ids, rows = tuple(unit.id for unit in units), sum(unit.rows for unit in units)
        return Part(self.whole, ids, rows, ledger, dump.tally, asked)


def check_plan(plan: Plan) -> None:
    """Refuse a plan that cannot be measured in parts.

    Raises:
        UsageError: when batches are rollouts in a row, or a recipe looks at the whole batch before its tokens.
    """
    if isinstance(plan.batch, int):
        raise UsageError(
            f"batches of {plan.batch:,} rollouts in a row are told apart only in a dump that is read as a whole; "
            "measure it in parts with --batch all or --batch step."
        )
    whole = [recipe.spec for recipe in plan.recipes if DumpCuts([recipe]).needed]
    if whole:
        raise UsageError(
            f"{whole[0]} looks at the whole batch before it decides on a token and cannot be measured in parts; "
            "leave it out here, and analyze the dump on one machine for it."
        )
