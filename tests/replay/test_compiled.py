from __future__ import annotations

from typing import Any

from iscope.replay.compiled import compiled


def test_what_cannot_be_kept_is_compiled_all_the_same() -> None:
    """A function that is in no file has no place beside it."""
    names: dict[str, Any] = {}
    exec("def successor(x):\n    return x + 1", names)
    assert compiled()(names["successor"])(1) == 2
