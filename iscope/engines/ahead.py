"""Decoding in a thread of its own, for passes that need the batches in order."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator

from iscope.rollouts import RolloutBatch

_AHEAD = 2  # decoded batches waiting to be used; more only costs memory


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
