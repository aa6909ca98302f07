"""Runs a command again and again in processes that are killed; started by a test, on its own.

Its processes are forked from one that has imported everything but started no thread, so that they begin at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from iscope import api
from iscope.cli.app import run
from iscope.dump import units

PATIENCE = 60.0


def main(state: Path, moments: list[tuple[int, float]], words: list[str]) -> list[int]:
    """Kill each process so many parts and seconds after it has begun; return how each ended, killed (-9) or by itself.

    Moments are told by the parts that are done, not by the clock alone: machines are of different speed.
    """
    assert api is not None
    return [_run(state, len(_parts(state)) + parts, seconds, words) for parts, seconds in moments]


def _parts(state: Path) -> list[Path]:
    return list(state.glob("*.part"))


def _run(state: Path, parts: int, seconds: float, words: list[str]) -> int:
    child = os.fork()
    if child == 0:
        units.TOKENS = 1
        os._exit(run(words))
    deadline = time.monotonic() + PATIENCE
    while len(_parts(state)) < parts and not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:])))
