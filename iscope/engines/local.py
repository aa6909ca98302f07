"""The local engine: a few threads that decode batches and measure them side by side."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

import torch

from iscope.engines.device import CPU, enough_memory, lane
from iscope.ledger.ledger import Ledger, LedgerBuilder
from iscope.ledger.measure import measure
from iscope.ledger.plan import Plan
from iscope.replay.dump_cuts import DumpCuts, RowCuts, cuts_of, cuts_on
from iscope.replay.to_device import to_device
from iscope.rollouts import RolloutBatch

Progress = Callable[[int, int], None]

# Beyond this many threads all wait for the memory, or for one that decodes.
_MOST_WORKERS = 4
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
    streams = [_Stream(iter(part)) for part in (batches, *beside)]
    shared = _Pass(streams, LedgerBuilder(plan), progress, cuts or {}, device)
    workers = workers_of(workers)
    with enough_memory(), ThreadPoolExecutor(workers, thread_name_prefix="iscope") as pool:
        try:
            threads = [pool.submit(shared.work, index) for index in range(workers)]
            while wait(threads, _LOOKS_UP).not_done:
                pass
            for thread in threads:
                thread.result()
        except BaseException:
            shared.stop()  # an interrupted pass must not go on to its end
            raise
    return shared.builder.finish()


def workers_of(asked: int | None) -> int:
    """Threads that measure, where so many are asked for; None takes as many as the machine has cores, up to a few."""
    return min(asked or os.cpu_count() or 1, _MOST_WORKERS)


class _Stream:
    """Batches that one thread at a time decodes."""

    def __init__(self, batches: Iterator[RolloutBatch]) -> None:
        self.lock = threading.Lock()
        self.ended = False
        self._batches = batches

    def next(self) -> RolloutBatch | None:
        """Decode a batch, with the lock held; None when there are none left."""
        batch = None if self.ended else next(self._batches, None)
        self.ended = batch is None
        return batch


class _Pass:
    """What the threads of one pass share: streams of batches and the ledger that grows, each behind a lock."""

    def __init__(
        self,
        streams: Sequence[_Stream],
        builder: LedgerBuilder,
        progress: Progress | None,
        cuts: RowCuts,
        device: torch.device,
    ) -> None:
        self.builder = builder
        self._device = device
        self._cuts = cuts
        self._rollouts = 0
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
        while (found := self._next(index)) is not None:
            batch, cuts = found
            there = to_device(batch, self._device)
            measured = measure(there, self.builder.plan, cuts_on(cuts, self._device), self.builder.floors)
            with self._building:
                self.builder.add(batch, measured)
                if self._progress is not None:
                    self._progress(len(batch), batch.tokens)

    def _next(self, index: int) -> tuple[RolloutBatch, RowCuts] | None:
        while not self._failed and (stream := self._free(index)) is not None:
            try:
                batch = stream.next()
                if batch is not None:
                    first, self._rollouts = self._rollouts, self._rollouts + len(batch)
                    return batch, cuts_of(self._cuts, slice(first, self._rollouts))
            finally:
                stream.lock.release()
        return None

    def _free(self, index: int) -> _Stream | None:
        """Take the lock of a stream with batches left, a thread's own one first; None when all have ended."""
        begin = index % len(self._streams)
        left = [stream for stream in (*self._streams[begin:], *self._streams[:begin]) if not stream.ended]
        for stream in left:
            if stream.lock.acquire(blocking=False):
                return stream
        if left:
            left[0].lock.acquire()
            return left[0]
        return None
