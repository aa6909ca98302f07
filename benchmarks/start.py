"""How long the commands take that must be quick, and whether they import torch.

python -m benchmarks.start [--repeats 9]

The quietest of the runs counts: what is above it, other processes of the machine took. Processor time, user and system,
stands beside wall time. Bytecode is kept, as it is of an installed package, whatever PYTHONDONTWRITEBYTECODE says.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from benchmarks.analyze import HERE
from benchmarks.bars import HEAD, Bar

COMMANDS = ("--help", "recipes")
SECONDS = 0.25
# The exit code tells whether torch was imported.
LOADED = "import sys; from iscope.cli.app import run; run([{!r}]); sys.exit('torch' in sys.modules)"


def once(bytecode: str, *arguments: str) -> tuple[float, float, int]:
    """Run Python in a fresh process; return wall and processor seconds and the exit code.

    Args:
        bytecode: the folder that it is kept in.
        *arguments: of Python.
    """
    environment = os.environ | {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, cwd=HERE.parent, check=False, env=environment
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.returncode


def bars(repeats: int) -> Iterator[Bar]:
    """Yield wall and processor time of each command, and 1 where it imports torch."""
    with tempfile.TemporaryDirectory() as bytecode:
        yield from _bars(bytecode, repeats)


def _bars(bytecode: str, repeats: int) -> Iterator[Bar]:
    for command in COMMANDS:
        once(bytecode, "-m", "iscope", command)
        runs = [once(bytecode, "-m", "iscope", command) for _ in range(repeats)]
        if any(code for *_, code in runs):
            raise RuntimeError(f"iscope {command} ended with exit code {max(code for *_, code in runs)}.")
        wall, processor = ([run[place] for run in runs] for place in (0, 1))
        yield Bar(f"iscope {command}, s, quietest", min(wall), wall, SECONDS, "{:.3f}")
        yield Bar(f"iscope {command}, processor time, s, quietest", min(processor), processor, None, "{:.3f}")
        loaded = once(bytecode, "-c", LOADED.format(command))[2]
        yield Bar(f"iscope {command}, times it imports torch", loaded, [loaded], 0, "{:.0f}")


def main() -> None:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(description="Time the commands that must be quick.")
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    print(HEAD)
    for bar in bars(options.repeats):
        print(bar.line)


if __name__ == "__main__":
    main()
