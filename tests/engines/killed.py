"""Runs a command again and again in processes that are killed at the moments given; started by a test, on its own.

Its processes are forked from one that has imported everything but started no thread, so that they begin at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from iscope import api
from iscope.cli.app import run
from iscope.dump import units


def main(words: list[str], moments: list[float]) -> list[int]:
    """Return how each process ended: killed (-9), or by itself with an exit code."""
    assert api is not None
    ends = []
    for moment in moments:
        child = os.fork()
        if child == 0:
            units.TOKENS = 1
            os._exit(run(words))
        time.sleep(moment)
        os.kill(child, signal.SIGKILL)
        ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return ends


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[2:], json.loads(sys.argv[1]))))
