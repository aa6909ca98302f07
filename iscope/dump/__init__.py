"""Files and tables -> RolloutBatch. The names are imported on first use, so that writing a dump needs no torch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iscope.dump.dump import Dump, DumpFile, PathOrFrame, Sides, Source
    from iscope.dump.opening import open_dump
    from iscope.dump.tally import Tally

__all__ = ["Dump", "DumpFile", "PathOrFrame", "Sides", "Source", "Tally", "open_dump"]

_HOMES = {
    **dict.fromkeys(("Dump", "DumpFile", "PathOrFrame", "Sides", "Source"), "iscope.dump.dump"),
    "Tally": "iscope.dump.tally",
    "open_dump": "iscope.dump.opening",
}


def __getattr__(name: str) -> Any:
    """Import a name from its home on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'iscope.dump' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
