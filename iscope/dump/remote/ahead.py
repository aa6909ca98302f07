"""Pieces of a remote file, fetched before they are asked for: several at a time, and never much more than is needed."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

Range = tuple[int, int]

# Bytes of a piece at most. A request takes some 50 ms before its first byte comes, whatever its size.
PIECE = 2 << 20
# Bytes between two ranges up to which one request for both, and what lies between, is cheaper than two.
HOLE = 128 << 10
# Pieces under way beyond the one that is read, and requests at the same time.
AHEAD, REQUESTS = 4, 8


def pieces_of(ranges: Sequence[Range]) -> list[Range]:
    """Return what to fetch for some byte ranges: neighbours joined, long ones cut, in the order of the file."""
    joined: list[Range] = []
    for start, stop in sorted(ranges):
        if joined and start - joined[-1][1] <= HOLE:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        elif stop > start:
            joined.append((start, stop))
    return [(at, min(at + PIECE, stop)) for start, stop in joined for at in range(start, stop, PIECE)]


class Ahead:
    """Reads a file whose wanted ranges are known, by several streams through it at once.

    A piece is let go of when all that was wanted of it has been read. Memory holds at most ``streams * (AHEAD + 2)``;
    one that had to go before is fetched again when asked for.
    """

    def __init__(self, fetch: Callable[[int, int], bytes], ranges: Sequence[Range], streams: int) -> None:
        """Fetch nothing yet.

        Args:
            fetch: returns the bytes from a place to before another one; called from several threads.
            ranges: what will be asked for.
            streams: readers that go through the ranges, each from its own place on.
        """
        self._fetch, self._pieces = fetch, pieces_of(ranges)
        self._starts = [start for start, _ in self._pieces]
        self._unread = [0] * len(self._pieces)
        for start, stop in ranges:
            for index, bytes_ in self._overlaps(start, stop):
                self._unread[index] += bytes_
        self._most = max(streams, 1) * (AHEAD + 2)
        self._pool = ThreadPoolExecutor(REQUESTS, thread_name_prefix="iscope-fetch")
        self._held: OrderedDict[int, Future[bytes]] = OrderedDict()
        self._begun: set[int] = set()
        self._near = 0  # grows with what is read: whoever looks at the start alone fetches one piece

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from ``start`` to before ``stop``; what is in no piece is fetched there and then."""
        parts = []
        at = start
        for index, count in self._overlaps(start, stop):
            first = self._starts[index]
            if at < first:
                parts.append(self._fetch(at, first))
            at = max(at, first)
            parts.append(self._piece(index).result()[at - first : at - first + count])
            at += count
            self._unread[index] -= count
            if self._unread[index] <= 0:
                self._held.pop(index, None)
        if at < stop:
            parts.append(self._fetch(at, stop))
        return b"".join(parts)

    def close(self) -> None:
        """Stop fetching; what is under way ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._held.clear()

    def _overlaps(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the pieces that a range touches, and how many bytes of each."""
        index = max(bisect_right(self._starts, start) - 1, 0)
        while index < len(self._pieces) and self._starts[index] < stop:
            first, last = self._pieces[index]
            if start < last and start < stop:
                yield index, min(stop, last) - max(start, first)
            index += 1

    def _piece(self, index: int) -> Future[bytes]:
        found = self._held.get(index) or self._submit(index)
        for near in range(index + 1, min(index + 1 + self._near, len(self._pieces))):
            if near not in self._begun:
                self._submit(near)
        self._near = min(self._near + 1, AHEAD)
        self._held.move_to_end(index)
        while len(self._held) > self._most:
            self._held.popitem(last=False)[1].cancel()
        return found

    def _submit(self, index: int) -> Future[bytes]:
        self._begun.add(index)
        self._held[index] = self._pool.submit(self._fetch, *self._pieces[index])
        return self._held[index]
