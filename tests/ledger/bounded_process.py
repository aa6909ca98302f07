"""Analyse a dump in a process of its own and print the peak of its memory above what imports take, MiB.

python bounded_process.py DUMP HELD, with HELD the bytes of rows that the ledger may hold in memory.
"""

from __future__ import annotations

import sys

from benchmarks.analyze import peak_bytes
from iscope.api import make_plan, report_of
from iscope.dump import open_dump
from iscope.engines import local
from iscope.ledger import collected


def main() -> None:
    """Run."""
    dump, collected.HELD = sys.argv[1], int(sys.argv[2])
    plan = make_plan(None)
    source = open_dump([dump], carry=plan.carried, batch_tokens=2**15)
    before = peak_bytes()
    report_of(local.run(source.batches(), plan), source)
    print((peak_bytes() - before) / 2**20)


if __name__ == "__main__":
    main()
