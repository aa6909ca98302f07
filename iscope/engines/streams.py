"""Parts of a dump that several threads decode, each part by one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from iscope.rollouts import RolloutBatch


class Streams:
    """Hands out the batches of several iterators, to any thread that asks."""

    def __init__(self, parts: Sequence[Iterable[RolloutBatch]]) -> None:
        """Take the parts of a dump, at least one."""
        self._streams = [_Stream(iter(part)) for part in parts]

    def next(self, thread: int) -> tuple[RolloutBatch, slice] | None:
        """Decode a batch.

        Args:
            thread: the number of the thread that asks; each begins with a part of its own, where there are enough.

        Returns:
            The batch and where its rollouts stand in their part; None when there are none left.
        """
        while (stream := self._locked(thread)) is not None:
            try:
                found = stream.next()
            finally:
                stream.lock.release()
            if found is not None:
                return found
        return None

    def _locked(self, thread: int) -> _Stream | None:
        """Take the lock of a stream that has not ended, one that nobody decodes if there is one; None when all have."""
        begin = thread % len(self._streams)
        left = [stream for stream in (*self._streams[begin:], *self._streams[:begin]) if not stream.ended]
        for stream in left:
            if stream.lock.acquire(blocking=False):
                return stream
        if not left:
            return None
        left[0].lock.acquire()
        return left[0]


@dataclass
class _Stream:
    """Batches that one thread at a time decodes, which holds the lock."""

    batches: Iterator[RolloutBatch]
    lock: threading.Lock = field(default_factory=threading.Lock)
    ended: bool = False
    rollouts: int = 0

    def next(self) -> tuple[RolloutBatch, slice] | None:
        """Decode a batch; None when there are none left."""
        batch = None if self.ended else next(self.batches, None)
        self.ended = batch is None
        if batch is None:
            return None
        first, self.rollouts = self.rollouts, self.rollouts + len(batch)
        return batch, slice(first, self.rollouts)
