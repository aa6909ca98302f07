"""Things that are made beside each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

T = TypeVar("T")


class Meanwhile:
    """Makes things in a second thread, or in turn."""

    def __init__(self, pool: Executor | None) -> None:
        """Take a pool of one thread; without it things are made in turn."""
        self._pool = pool

    def make(self, what: Callable[[], T], *, when_due: bool = False) -> Callable[[], T]:
        """Begin to make something; what is returned waits for it, or makes it where its turn has not come.

        Args:
            what: what makes it.
            when_due: in turn, make it when it is asked for, not now.
        """
        if self._pool is not None:
            begun = self._pool.submit(what)
            return lambda: what() if begun.cancel() else begun.result()
        if when_due:
            return what
        made = what()
        return lambda: made


@contextmanager
def meanwhile(*, in_turn: bool) -> Iterator[Meanwhile]:
    """Make things in a second thread beside this one, or in turn where memory is short.

    Torch works in one thread: what is done with rows is too short to share, and the other thread needs the core.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        if in_turn:
            yield Meanwhile(None)
            return
        alone = ThreadPoolExecutor(1, "iscope", initializer=torch.set_num_threads, initargs=(1,))
        with alone as pool:
            yield Meanwhile(pool)
    finally:
        torch.set_num_threads(threads)
