from __future__ import annotations

import errno
from typing import Any

import pytest
from numba.core.caching import IndexDataCacheFile

from iscope.replay.compiled import compiled


def test_what_cannot_be_kept_is_compiled_all_the_same() -> None:
    """A function that is in no file has no place beside it."""
    names: dict[str, Any] = {}
    exec("def successor(x):\n    return x + 1", names)
    assert compiled()(names["successor"])(1) == 2


def test_a_full_disk_does_not_keep_a_loop_from_running(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def full(*_: Any) -> None:
        asked.append(1)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(IndexDataCacheFile, "save", full)

    def predecessor(x: int) -> int:
        return x - 1

    assert compiled()(predecessor)(1) == 0
    assert asked
