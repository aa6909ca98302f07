"""Files that are read one after the other, the next ones begun meanwhile: each waits for its server before it gives."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

# Files under way at once. Each holds its first batch of rollouts.
FILES = 8


def started(reads: Iterable[Iterator[T]]) -> Iterator[Iterator[T]]:
    """Yield iterators in their order, the first item of the next few computed in threads meanwhile.

    Args:
        reads: iterators that nobody has begun; what one raises is raised where its items are asked for.
    """
    pool = ThreadPoolExecutor(FILES, thread_name_prefix="iscope-started")
    waiting: deque[tuple[Iterator[T], Future[list[T]]]] = deque()
    try:
        for read in reads:
            waiting.append((read, pool.submit(lambda own: list(islice(own, 1)), read)))
            if len(waiting) == FILES:
                yield _resumed(*waiting.popleft())
        while waiting:
            yield _resumed(*waiting.popleft())
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for read, first in waiting:
            if first.done():  # one that runs ends by itself
                _close(read)


def _resumed(read: Iterator[T], first: Future[list[T]]) -> Iterator[T]:
    try:
        yield from first.result()
        yield from read
    finally:
        if first.done():
            _close(read)


def _close(read: Iterator[T]) -> None:
    if isinstance(read, Generator):
        read.close()
