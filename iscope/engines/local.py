"""The local engine: a few threads that take turns at decoding batches and measure them side by side."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
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

# Decoding is one after the other; beyond this many threads all wait for it.
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
) -> Ledger:
    """Measure every batch and return the ledger; on a CPU the same bits for any number of threads.

    Args:
        batches: the dump.
        plan: what to measure.
        progress: called with the rollouts and tokens of each batch done.
        cuts: where filters that look at a whole batch cut each rollout of the dump (``iscope.engines.cuts_pass``).
        workers: threads; None takes as many as the machine has cores, up to the number that is of use.
        device: where to measure (``iscope.engines.device``).

    Raises:
        UsageError: when a GPU has too little memory.
    """
    assert cuts is not None or not DumpCuts(plan.recipes).needed, "a recipe needs the cuts of the whole dump"
    shared = _Pass(iter(batches), LedgerBuilder(plan), progress, cuts or {}, device)
    workers = min(workers or os.cpu_count() or 1, _MOST_WORKERS)
    with enough_memory(), ThreadPoolExecutor(workers, thread_name_prefix="iscope") as pool:
        try:
            threads = [pool.submit(shared.work) for _ in range(workers)]
            while wait(threads, _LOOKS_UP).not_done:
                pass
            for thread in threads:
                thread.result()
        except BaseException:
            shared.stop()  # an interrupted pass must not go on to its end
            raise
    return shared.builder.finish()


class _Pass:
    """What the threads of one pass share: the stream of batches and the ledger that grows, each behind a lock."""

    def __init__(
        self,
        batches: Iterator[RolloutBatch],
        builder: LedgerBuilder,
        progress: Progress | None,
        cuts: RowCuts,
        device: torch.device,
    ) -> None:
        self.builder = builder
        self._device = device
        self._cuts = cuts
        self._rollouts = 0
        self._batches = batches
        self._progress = progress
        self._decoding = threading.Lock()
        self._building = threading.Lock()
        self._failed = False

    def work(self) -> None:
        """Measure batches until there are none left, or until a thread has failed."""
        torch.set_num_threads(1)  # the operations are too short to share, and the other threads need the cores
        try:
            with lane(self._device):
                self._work()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Let the threads end after the batch they are at."""
        self._failed = True

    def _work(self) -> None:
        while (found := self._next()) is not None:
            batch, cuts = found
            there = to_device(batch, self._device)
            measured = measure(there, self.builder.plan, cuts_on(cuts, self._device), self.builder.floors)
            with self._building:
                self.builder.add(batch, measured)
                if self._progress is not None:
                    self._progress(len(batch), batch.tokens)

    def _next(self) -> tuple[RolloutBatch, RowCuts] | None:
        with self._decoding:
            batch = None if self._failed else next(self._batches, None)
            if batch is None:
                return None
            first, self._rollouts = self._rollouts, self._rollouts + len(batch)
            return batch, cuts_of(self._cuts, slice(first, self._rollouts))
