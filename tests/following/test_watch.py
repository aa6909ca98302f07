from __future__ import annotations

import os
import time

import pytest

from iscope.dump.remote.urls import UNSTAMPED, RemoteName
from iscope.dump.watch import Watch


@pytest.fixture
def clock():
    class Clock:
        now = 1000.0

        def __call__(self):
            return self.now

    return Clock()


@pytest.fixture
def file(tmp_path):
    """A file whose clock is ahead of ours, so that its age tells nothing."""
    path = tmp_path / "a.parquet"

    def write(content):
        path.write_bytes(content)
        later = time.time() + 3600
        os.utime(path, (later, later))
        return str(path)

    return write


def test_a_file_is_finished_when_it_has_been_quiet(file, clock):
    watch = Watch(5.0, clock)
    path = file(b"1")
    assert not watch.is_finished(path)
    clock.now += 4.9
    assert not watch.is_finished(path)
    file(b"12")
    clock.now += 4.9
    assert not watch.is_finished(path)
    clock.now += 4.9
    assert not watch.is_finished(path)
    clock.now += 0.2
    assert watch.is_finished(path)


def test_an_old_file_is_finished_at_first_sight(file, clock):
    path = file(b"1")
    os.utime(path, (time.time() - 6, time.time() - 6))
    assert Watch(5.0, clock).is_finished(path)
    assert not Watch(60.0, clock).is_finished(path)


def test_a_marker_beside_it_tells(file, clock, tmp_path):
    path = file(b"1")
    (tmp_path / "STABLE").touch()
    assert Watch(5.0, clock).is_finished(path)


def test_a_file_that_has_gone(file, clock):
    path = file(b"1")
    os.unlink(path)
    watch = Watch(0.0, clock)
    assert watch.mark(path) is None
    assert not watch.is_finished(path)


def test_objects_are_there_as_a_whole(clock):
    watch = Watch(5.0, clock)
    one, same, other = (
        RemoteName("s3://b/a", size=size, stamp=stamp) for size, stamp in ((1, "x"), (1, "x"), (1, "y"))
    )
    assert watch.is_finished(one)
    assert watch.mark(one) == watch.mark(same) != watch.mark(other)
    unknown = [RemoteName("https://h/a", size=1, stamp=f"{UNSTAMPED}{index}") for index in range(2)]
    assert watch.mark(unknown[0]) == watch.mark(unknown[1])
