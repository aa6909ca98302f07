"""The local engine: a few threads that decode batches and measure them side by side."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

import torch

from iscope.engines.device import CPU, enough_memory, lane
from iscope.engines.streams import Streams
from iscope.ledger.ledger import Ledger, LedgerBuilder
from iscope.ledger.looked import Looked, can_go_together, look
from iscope.ledger.measure import measure_together
from iscope.ledger.memory import release
from iscope.ledger.plan import Plan
from iscope.replay.dump_cuts import DumpCuts, RowCuts, cuts_of, cuts_on
from iscope.replay.to_device import to_device
from iscope.rollouts import RolloutBatch

Progress = Callable[[int, int], None]
T = TypeVar("T")

# Beyond this many threads all wait for the memory, or for one that decodes.
_MOST_WORKERS = 4
# Batches that wait for their recipes to be replayed together: at most so many of all threads, and of a thread so many,
# with so many tokens outside the screen and rollouts.
_WAITING, _WAITING_EACH, _WAITING_OUTSIDE, _WAITING_ROLLOUTS = 12, 8, 2**17, 2**13
# Seconds: polars takes signals so that they wake no thread that waits, and Ctrl-C would be noticed when all is done.
_LOOKS_UP = 0.2


def run(
    batches: Iterable[RolloutBatch],
    plan: Plan,
    progress: Progress | None = None,
    cuts: RowCuts | None = None,
    workers: int | None = None,
    device: torch.device = CPU,
    beside: Sequence[Iterable[RolloutBatch]] = (),
) -> Ledger:
    """Measure every batch and return the ledger; on a CPU the same bits for any number of threads.

    Args:
        batches: the dump.
        plan: what to measure.
        progress: called with the rollouts and tokens of each batch done.
        cuts: where filters that look at a whole batch cut each rollout of the dump (``iscope.engines.cuts_pass``).
        workers: threads; None takes as many as the machine has cores, up to the number that is of use.
        device: where to measure (``iscope.engines.device``).
        beside: further parts of the dump, which are read at the same time; none with cuts.

    Raises:
        UsageError: when a GPU has too little memory.
    """
    assert cuts is not None or not DumpCuts(plan.recipes).needed, "a recipe needs the cuts of the whole dump"
    assert not (cuts and beside), "cuts are numbered in the order of the dump"
    workers = workers_of(workers)
    release()  # a thread has a heap of its own, so that what those of an earlier pass let go of adds up
    shared = _Pass(Streams((batches, *beside)), LedgerBuilder(plan), progress, cuts or {}, device, workers)
    with enough_memory(), ThreadPoolExecutor(workers, thread_name_prefix="iscope") as pool:
        try:
            _results([pool.submit(shared.work, index) for index in range(workers)])
            # In a thread of theirs, which has the memory that their batches took.
            return _results([pool.submit(shared.builder.finish)])[0]
        except BaseException:
            shared.stop()  # an interrupted pass must not go on to its end
            raise


def _results(threads: Sequence[Future[T]]) -> list[T]:
    """Wait for what threads return; the first error is raised when all have ended."""
    while wait(threads, _LOOKS_UP).not_done:
        pass
    return [thread.result() for thread in threads]


def workers_of(asked: int | None) -> int:
    """Threads that measure, where so many are asked for; None takes as many as the machine has cores, up to a few."""
    return min(asked or os.cpu_count() or 1, _MOST_WORKERS)


class _Waiting:
    """Batches of one thread whose recipes are replayed together."""

    def __init__(self, most: int) -> None:
        """Start without any; at most so many are to wait."""
        self._most = most
        self._batches: list[RolloutBatch] = []
        self._looked: list[Looked] = []

    def __len__(self) -> int:
        """How many there are."""
        return len(self._batches)

    def goes_with(self, looked: Looked) -> bool:
        """Whether recipes can be replayed on one more batch at once with those that wait."""
        return not self._looked or (looked.kind is not None and looked.kind == self._looked[0].kind)

    def add(self, batch: RolloutBatch, looked: Looked) -> None:
        """Let a batch wait, and what was found of it."""
        self._batches.append(batch)
        self._looked.append(looked)

    def take(self) -> tuple[list[RolloutBatch], list[Looked]]:
        """Return those that wait: none does then."""
        taken = self._batches, self._looked
        self._batches, self._looked = [], []
        return taken

    @property
    def enough(self) -> bool:
        """Whether a token would cost no less with more of them; those that wait take memory."""
        outside, rollouts = sum(one.outside for one in self._looked), sum(map(len, self._batches))
        full = len(self) >= self._most or outside >= _WAITING_OUTSIDE or rollouts >= _WAITING_ROLLOUTS
        return full or self._looked[0].kind is None


class _Pass:
    """What the threads of one pass share: streams of batches and the ledger that grows, each behind a lock."""

    def __init__(
        self,
        streams: Streams,
        builder: LedgerBuilder,
        progress: Progress | None,
        cuts: RowCuts,
        device: torch.device,
        workers: int,
    ) -> None:
        self.builder = builder
        self._most = max(1, min(_WAITING_EACH, _WAITING // workers)) if can_go_together(builder.plan) else 1
        self._device = device
        self._cuts = cuts
        self._streams = streams
        self._progress = progress
        self._building = threading.Lock()
        self._failed = False

    def work(self, index: int) -> None:
        """Measure batches until there are none left, or until a thread has failed; ``index`` is the thread's number."""
        torch.set_num_threads(1)  # the operations are too short to share, and the other threads need the cores
        try:
            with lane(self._device):
                self._work(index)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Let the threads end after the batch they are at."""
        self._failed = True

    def _work(self, index: int) -> None:
        waiting = _Waiting(self._most)
        plan = self.builder.plan
        while not self._failed and (found := self._streams.next(index)) is not None:
            batch, rows = found
            cuts = cuts_on(cuts_of(self._cuts, rows), self._device)
            looked = look(to_device(batch, self._device), plan, cuts, self.builder.floors)
            if not waiting.goes_with(looked):
                self._measure(waiting)
            waiting.add(batch, looked)
            if waiting.enough:
                self._measure(waiting)
        self._measure(waiting)

    def _measure(self, waiting: _Waiting) -> None:
        """Measure the batches that wait, and add them to the ledger."""
        if not len(waiting):
            return
        batches, looked = waiting.take()
        measured = measure_together(looked, self.builder.plan)
        with self._building:
            self.builder.add(batches, measured)
            if self._progress is not None:
                for batch in batches:
                    self._progress(len(batch), batch.tokens)
