from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iscope.dump.remote import ahead
from iscope.dump.remote.ahead import Ahead, pieces_of
from iscope.dump.remote.started import FILES, started

CONTENT = bytes(range(251)) * 40
RANGES = st.lists(st.tuples(st.integers(0, len(CONTENT)), st.integers(0, 3000)), max_size=8)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(ahead, "PIECE", 700)
    monkeypatch.setattr(ahead, "HOLE", 50)


def spans(pairs):
    return [(start, min(start + length, len(CONTENT))) for start, length in pairs]


@given(RANGES)
def test_pieces_cover_what_is_asked_for_and_little_more(pairs):
    ranges = spans(pairs)
    pieces = pieces_of(ranges)
    asked = {byte for start, stop in ranges for byte in range(start, stop)}
    fetched = [byte for start, stop in pieces for byte in range(start, stop)]
    assert asked <= set(fetched)
    assert fetched == sorted(set(fetched))
    assert all(0 < stop - start <= 700 for start, stop in pieces)
    assert len(fetched) <= len(asked) + 50 * max(len(ranges) - 1, 0)


@given(RANGES, RANGES, st.integers(1, 4))
def test_what_is_read_is_what_is_there(pairs, reads, streams):
    file = Ahead(lambda start, stop: CONTENT[start:stop], spans(pairs), streams)
    try:
        for start, stop in spans(reads):
            assert file.read(start, stop) == CONTENT[start:stop]
    finally:
        file.close()


def test_streams_side_by_side_fetch_each_piece_once():
    fetched = []

    def fetch(start, stop):
        fetched.append((start, stop))
        return CONTENT[start:stop]

    columns = [(0, 4000), (5000, 9000)]
    file = Ahead(fetch, columns, streams=2)
    for at in range(0, 4000, 100):
        for start, _ in columns:
            assert file.read(start + at, start + at + 100) == CONTENT[start + at : start + at + 100]
        assert len(file._held) <= 2 * (ahead.AHEAD + 1)
    file.close()
    assert sorted(fetched) == pieces_of(columns)


def test_the_start_alone_is_one_piece():
    fetched = []
    file = Ahead(lambda start, stop: fetched.append(start) or CONTENT[start:stop], [(0, 9000)], 1)
    assert file.read(0, 4) == CONTENT[:4]
    file.close()
    assert fetched == [0]


def test_a_failure_comes_where_it_is_read():
    def fetch(start, stop):
        if start >= 700:
            raise OSError("gone")
        return CONTENT[start:stop]

    file = Ahead(fetch, [(0, 2100)], 1)
    assert file.read(0, 700) == CONTENT[:700]
    with pytest.raises(OSError, match="gone"):
        file.read(600, 800)
    file.close()


def numbers(count, begun=None):
    if begun is not None:
        begun.append(count)
    yield from range(count)


def test_started_keeps_the_order():
    counts = [3, 0, 1, *range(20)]
    assert [list(read) for read in started(map(numbers, counts))] == [list(range(count)) for count in counts]


def test_the_next_ones_are_begun_and_no_more():
    begun: list[int] = []
    reads = started(numbers(count, begun) for count in range(1, 100))
    assert list(next(reads)) == [0]
    deadline = time.monotonic() + 5
    while len(begun) < FILES and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sorted(begun) == list(range(1, FILES + 1))
    reads.close()


def test_what_one_raises_is_raised_in_its_place():
    def fails():
        yield 1
        raise ValueError("second")

    def fails_at_once():
        raise ValueError("first")
        yield

    reads = started([numbers(2), fails(), fails_at_once()])
    assert list(next(reads)) == [0, 1]
    read = next(reads)
    assert next(read) == 1
    with pytest.raises(ValueError, match="second"):
        next(read)
    with pytest.raises(ValueError, match="first"):
        next(next(reads))


def test_who_stops_early_leaves_nothing_open():
    closed = threading.Event()

    def held():
        try:
            yield 1
            yield 2
        finally:
            closed.set()

    reads = started([held(), numbers(3)])
    read = next(reads)
    assert next(read) == 1
    read.close()
    reads.close()
    assert closed.is_set()
