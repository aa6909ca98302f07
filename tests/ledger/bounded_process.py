"""Analyse a dump in a process of its own and print the peak of its memory above what imports take, MiB.

python bounded_process.py DUMP HELD, with HELD the bytes of rows that the ledger may hold in memory.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from iscope.api import make_plan, report_of
from iscope.dump import open_dump
from iscope.engines import local
from iscope.ledger import collected


def peak() -> float:
    """The most memory that this process ever had, MiB; getrusage begins with that of the process that started it."""
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def main() -> None:
    """Run."""
    dump, collected.HELD = sys.argv[1], int(sys.argv[2])
    plan = make_plan(None)
    source = open_dump([dump], carry=plan.carried, batch_tokens=2**15)
    before = peak()
    report_of(local.run(source.batches(), plan), source)
    print(peak() - before)


if __name__ == "__main__":
    main()
