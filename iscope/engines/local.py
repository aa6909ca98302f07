"""The local engine: one thread decodes batches while another measures them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch

from iscope.ledger.ledger import Ledger, LedgerBuilder
from iscope.ledger.measure import measure
from iscope.ledger.plan import Plan
from iscope.rollouts import RolloutBatch

Progress = Callable[[int, int], None]

_AHEAD = 2  # decoded batches waiting to be measured; more only costs memory


def run(batches: Iterable[RolloutBatch], plan: Plan, progress: Progress | None = None) -> Ledger:
    """Measure every batch and return the ledger.

    Args:
        batches: the dump.
        plan: what to measure.
        progress: called with the rollouts and tokens of each batch done.
    """
    builder = LedgerBuilder(plan)
    with _one_thread():
        for batch in decode_ahead(batches):
            builder.add(batch, measure(batch, plan))
            if progress is not None:
                progress(len(batch), batch.tokens)
    return builder.finish()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep torch to one thread: its operations here are too short to share, and the decoder needs the other core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def decode_ahead(batches: Iterable[RolloutBatch]) -> Iterator[RolloutBatch]:
    """Iterate in a thread of its own, a few batches ahead; an error there is raised here."""
    ready: queue.Queue[RolloutBatch | BaseException | None] = queue.Queue(_AHEAD)
    stop = threading.Event()

    def decode() -> None:
        try:
            for batch in batches:
                _offer(ready, batch, stop)
                if stop.is_set():
                    return
            _offer(ready, None, stop)
        except BaseException as error:
            _offer(ready, error, stop)

    worker = threading.Thread(target=decode, name="iscope-decode", daemon=True)
    worker.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        worker.join()


def _offer(
    ready: queue.Queue[RolloutBatch | BaseException | None],
    item: RolloutBatch | BaseException | None,
    stop: threading.Event,
) -> None:
    while not stop.is_set():
        try:
            ready.put(item, timeout=0.1)
            return
        except queue.Full:
            continue
