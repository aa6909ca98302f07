"""Files and tables -> RolloutBatch."""

from __future__ import annotations

from iscope.dump.dump import Dump, DumpFile, PathOrFrame, Sides, Source
from iscope.dump.opening import open_dump
from iscope.dump.tally import Tally

__all__ = ["Dump", "DumpFile", "PathOrFrame", "Sides", "Source", "Tally", "open_dump"]
