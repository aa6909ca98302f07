"""What has been measured of a dump that is being written, and what is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from iscope.api import without_reference_terms
from iscope.dump import Dump
from iscope.dump.portions import groups, portion, shape
from iscope.dump.tally import Tally, merged
from iscope.dump.watch import Mark, Opening, Watch
from iscope.engines import local
from iscope.engines.cuts_pass import find_cuts
from iscope.engines.scopes import scoped
from iscope.errors import DataError
from iscope.ledger.ledger import Ledger
from iscope.ledger.plan import BATCH, Plan
from iscope.render.numbers import counted
from iscope.replay.dump_cuts import DumpCuts

# Sentences about files that cannot be used, of those that appear together.
_SAID = 3

Round = tuple[Ledger, Dump, list[str]]


class Following:
    """Measures the files of a dump as they are finished."""

    def __init__(
        self,
        plan: Plan,
        opening: Opening,
        watch: Watch,
        say: Callable[[str], None],
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Look at nothing yet.

        Args:
            plan: what to measure.
            opening: the dump.
            watch: tells which files are finished.
            say: takes a sentence about a file that is left out, has changed or has gone.
            progress: called with the rollouts and tokens of each batch that is done.
        """
        self._plan, self._opening, self._watch = plan, opening, watch
        self._say, self._progress = say, progress
        self._marks: dict[str, Mark | None] = {}
        self._admitted: dict[str, Mark | None] = {}
        self._bad: dict[str, Mark | None] = {}
        self._gone: set[str] = set()
        self._unfinished = False
        self._problem: DataError | None = None
        self._measured: set[str] = set()
        self._keys: set[int] = set()
        self._ledger: Ledger | None = None
        self._whole: Dump | None = None
        self._tallies: list[Tally] = []
        self._left: list[str] = []

    def rounds(self, until: int | None, idle_timeout: float | None, every: float) -> Iterator[Round]:
        """Yield what has been measured, whenever there is more of it.

        Args:
            until: the step to end with; None is none.
            idle_timeout: seconds without a new file to end after; None is none.
            every: seconds between two looks.

        Raises:
            DataError: when it ends without a file that can be used.
        """
        last = self._watch.clock()
        while True:
            found = self._look()
            if found and self._take(found):
                yield self._state()
            now = self._watch.clock()
            last = now if found or self._unfinished else last
            if self._reached(until) or (idle_timeout is not None and not found and now - last >= idle_timeout):
                break
            time.sleep(every)
        if self._opening.paired and self._admit((), [], rest=True):
            yield self._state()
        if self._ledger is None:
            raise self._problem or DataError(f"{self._opening}: no finished file of rollouts has appeared.")

    def _look(self) -> list[str]:
        """The finished files that have not been taken, or have changed since they were."""
        self._marks = marks = {file: self._watch.mark(file) for file in self._opening.look()}
        self._lose([file for file in self._admitted if file not in marks])
        for file in self._gone & marks.keys():
            self._gone.discard(file)
            if file not in self._measured:
                self._admitted.pop(file, None)
        known = self._bad | self._admitted
        new = [file for file, mark in marks.items() if file not in known or known[file] != mark]
        finished = [file for file in new if self._watch.is_finished(file)]
        self._unfinished = len(finished) < len(new)
        return finished

    def _take(self, files: Sequence[str]) -> bool:
        """Measure finished files as far as they can be; returns whether the report is another one."""
        changed = [file for file in files if file in self._admitted]
        for file in changed:
            self._say(f"{file} has changed since it was read; the dump is read again.")
            del self._admitted[file]
            self._ledger = None
        self._opening.forget(files)
        problems: list[DataError] = []
        more = self._admit(files, problems)
        if self._ledger is None and self._admitted:
            more = self._admit((), problems) or more
        for problem in problems[:_SAID]:
            self._say(f"left out: {problem}")
        if len(problems) > _SAID:
            self._say(f"left out: {counted(len(problems) - _SAID, 'file')} more.")
        return more

    def _admit(self, files: Sequence[str], problems: list[DataError], *, rest: bool = False) -> bool:
        """Measure files, all but those that cannot be; see ``_measure``."""
        try:
            return self._measure(files, rest=rest)
        except DataError as error:
            if self._opening.strict:
                raise
            if self._lose([file for file in self._admitted if self._watch.mark(file) is None]):
                return self._admit(files, problems, rest=rest)
            if len(files) < 2:
                problems.append(error)
                self._problem = error
                self._bad |= {file: self._marks[file] for file in files}
                return False
        half = len(files) // 2
        return bool(sum([self._admit(files[:half], problems), self._admit(files[half:], problems)]))

    def _lose(self, files: Sequence[str]) -> bool:
        """Note files that have gone; returns whether any is news."""
        news = [file for file in files if file not in self._gone]
        self._gone |= set(news)
        for file in news:
            self._say(f"{file} has gone; what was measured of it stays in the report.")
        return bool(news)

    def _measure(self, files: Sequence[str], *, rest: bool = False) -> bool:
        """Take files, and measure those that can be by now; nothing has changed if that fails.

        Args:
            files: the files to take.
            rest: whether to measure files whose other side is missing, too.
        """
        whole = self._opening.open({*self._admitted, *files})
        if whole is not None:
            self._add(whole, rest=rest)
        self._admitted |= {file: self._marks[file] for file in files}
        for file in files:
            self._bad.pop(file, None)
        return whole is not None and self._whole is whole

    def _add(self, whole: Dump, *, rest: bool) -> None:
        there = {file.path for file in whole.files}
        ready, keys, known = self._ready(portion(whole, there - self._measured - self._gone), rest=rest)
        plan, left = without_reference_terms(self._plan, whole)
        merges = plan.batch_column != BATCH and not DumpCuts(plan.recipes).needed
        again = self._ledger is None or known or not merges or shape(whole) != shape(self._whole or whole)
        wanted = ready | (self._measured & there - self._gone) if again else ready
        if not wanted or not (ready or self._ledger is None):
            return
        part = portion(whole, wanted)
        found = self._run(plan, part)
        lost = len(self._measured & self._gone) if again else 0
        if lost:
            self._say(f"the dump had to be read again, without {counted(lost, 'file')} of it that had gone before.")
        if again or self._ledger is None:
            self._measured, self._tallies = set(), []
        else:
            found = self._ledger.merge(found)
        self._ledger, self._whole, self._left = found, whole, left
        self._measured |= wanted
        self._keys |= keys
        self._tallies.append(part.tally)

    def _ready(self, new: Dump, *, rest: bool) -> tuple[set[str], set[int], bool]:
        """Which files to measure, their keys, and whether a key of theirs was measured before."""
        if not self._opening.paired:
            return {file.path for file in new.files}, set(), False
        chosen = [(files, keys) for files, complete, keys in groups(new) if complete or rest]
        keys = set().union(*(keys for _, keys in chosen))
        ready = {file.path for file in new.files} if rest else set().union(*(files for files, _ in chosen))
        return ready, keys, not keys.isdisjoint(self._keys)

    def _run(self, plan: Plan, part: Dump) -> Ledger:
        cuts = find_cuts(part.batches, plan.recipes, plan.unscored, plan.batch)
        return local.run(scoped(part.batches(), plan.batch), plan, self._progress, cuts)

    def _reached(self, until: int | None) -> bool:
        """Whether a rollout of a later step has been measured, or one of this step and no file is unfinished."""
        if until is None or self._ledger is None or "step" not in self._ledger.rows.columns:
            return False
        steps = self._ledger.rows["step"].cast(float, strict=False).max()
        latest = steps if isinstance(steps, float) else float("-inf")
        return latest > until or (latest == until and not self._unfinished)

    def _state(self) -> Round:
        assert self._ledger is not None
        assert self._whole is not None
        measured = portion(self._whole, self._measured)
        here = portion(measured, self._measured - self._gone)  # of the others nothing can be read any more
        said = [*self._left, *_left_out(list(self._bad))]
        return self._ledger, replace(measured, content=here.content, tally=merged(self._tallies)), said


def _left_out(files: Sequence[str]) -> list[str]:
    if not files:
        return []
    named = ", ".join(files[:3]) + (", ..." if len(files) > 3 else "")
    return [f"{counted(len(files), 'file')} could not be used, left out: {named}."]
