"""The local engine: a few threads that take turns at decoding batches and measure them side by side."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import torch

from iscope.ledger.ledger import Ledger, LedgerBuilder
from iscope.ledger.measure import measure
from iscope.ledger.plan import Plan
from iscope.replay.dump_cuts import DumpCuts, RowCuts, cuts_of
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
) -> Ledger:
    """Measure every batch and return the ledger; the same bits for any number of threads.

    Args:
        batches: the dump.
        plan: what to measure.
        progress: called with the rollouts and tokens of each batch done.
        cuts: where filters that look at a whole batch cut each rollout of the dump (``iscope.engines.cuts_pass``).
        workers: threads; None takes as many as the machine has cores, up to the number that is of use.
    """
    assert cuts is not None or not DumpCuts(plan.recipes).needed, "a recipe needs the cuts of the whole dump"
    shared = _Pass(iter(batches), LedgerBuilder(plan), progress, cuts or {})
    workers = min(workers or os.cpu_count() or 1, _MOST_WORKERS)
    with ThreadPoolExecutor(workers, thread_name_prefix="iscope") as pool:
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
        self, batches: Iterator[RolloutBatch], builder: LedgerBuilder, progress: Progress | None, cuts: RowCuts
    ) -> None:
        self.builder = builder
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
            while (found := self._next()) is not None:
                batch, cuts = found
                measured = measure(batch, self.builder.plan, cuts, self.builder.floors)
                with self._building:
                    self.builder.add(batch, measured)
                    if self._progress is not None:
                        self._progress(len(batch), batch.tokens)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Let the threads end after the batch they are at."""
        self._failed = True

    def _next(self) -> tuple[RolloutBatch, RowCuts] | None:
        with self._decoding:
            batch = None if self._failed else next(self._batches, None)
            if batch is None:
                return None
            first, self._rollouts = self._rollouts, self._rollouts + len(batch)
            return batch, cuts_of(self._cuts, slice(first, self._rollouts))
