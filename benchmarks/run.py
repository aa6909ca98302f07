"""Every measurement of speed and memory as one table, in ratios.

python -m benchmarks.run [--tokens 30_000_000] [--repeats 5] [--only ordinary,worst,slope,start]

``ordinary`` is analyze over the floor (``benchmarks/analyze.py``), the pass over the tokens alone over the floor, and
the same of processor time. ``worst`` are dumps that are hard in one way each: also how many times more processor time
the pass takes for a token than in the ordinary dump of the same size. ``slope`` is the cost against the size, with the
exponent of tokens in the time, 1 where it is linear. ``start`` are the commands that must not import torch. Dumps are
made in a temporary folder, one at a time.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.analyze import HERE, Timing, make, run

SECTIONS = ("ordinary", "worst", "slope", "start")

# Name, options of make_dump.py, share of the tokens asked for.
WORST = (
    ("ordinary, the same size", (), 1.0),
    ("everything in the tail", ("--tail-share", "1"), 1.0),
    ("rollouts of 131,072 tokens", ("--mean-length", "131072", "--one-length"), 1.0),
    ("one huge row group", ("--row-group-size", "100000000"), 1.0),
    ("row groups of 8 rollouts", ("--row-group-size", "8"), 1.0),
    ("rollouts of 5 tokens", ("--mean-length", "5"), 0.5),
    ("1,000 files", ("--files", "1000"), 1.0),
    ("with current logprobs", ("--current",), 1.0),
    ("with token ids", ("--token-ids",), 1.0),
)
SLOPE_SHARES = (1 / 30, 1 / 10, 1 / 3, 1.0)
COMMANDS = (("--help",), ("recipes",))
LINE = "{:<28} {:>12} {:>11} {:>10} {:>8} {:>8} {:>8} {:>8} {:>10}"


def timed(options: tuple[str, ...], tokens: int, repeats: int) -> Timing:
    """Make a dump, measure it and drop it."""
    with tempfile.TemporaryDirectory() as folder:
        dump = Path(folder) / "dump.parquet"
        make(dump, "--tokens", str(tokens), *options)
        return run(dump, repeats)


def line(name: str, found: Timing, cost: str = "") -> str:
    """Return a row of the table."""
    each = found.seconds / found.tokens * 1e9
    return LINE.format(
        name,
        f"{found.tokens:,}",
        f"{found.rollouts:,}",
        f"{each:.1f} ns",
        f"{found.ratio:.2f}",
        f"{found.pass_ratio:.2f}",
        f"{found.cpu_ratio:.2f}",
        cost,
        f"{found.peak / 2**20:,.0f} MiB",
    )


def head() -> str:
    """Return the head of the table."""
    return LINE.format("dump", "tokens", "rollouts", "a token", "/ floor", "pass", "pass cpu", "/ plain", "memory")


def worst(tokens: int, repeats: int) -> Iterator[str]:
    """Yield a row for each dump that is hard in one way."""
    plain = 0.0
    for name, options, share in WORST:
        found = timed(options, int(tokens * share), repeats)
        each = statistics.median(found.passes_cpu) / found.tokens
        plain = plain or each
        yield line(name, found, f"{each / plain:.2f}")


def slope(tokens: int, repeats: int) -> Iterator[str]:
    """Yield a row for each size, and the exponent."""
    sizes, seconds = [], []
    for share in SLOPE_SHARES:
        found = timed((), int(tokens * share), repeats)
        sizes.append(found.tokens)
        seconds.append(found.seconds)
        yield line("ordinary", found)
    exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    yield f"time grows with tokens to the power of {exponent:.2f}"


def start(repeats: int) -> Iterator[str]:
    """Yield the time of each command that must be quick, in seconds."""
    for command in COMMANDS:
        seconds = []
        for _ in range(repeats):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-m", "iscope", *command], check=True, capture_output=True, cwd=HERE.parent)
            seconds.append(time.perf_counter() - began)
        yield f"{'iscope ' + ' '.join(command):<28} {statistics.median(seconds):.3f} s"


def main() -> None:
    """Parse the command line and print the sections as they are done."""
    parser = argparse.ArgumentParser(description="Print the table of every measurement of speed and memory.")
    parser.add_argument("--tokens", type=int, default=30_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, of " + ", ".join(SECTIONS))
    options = parser.parse_args()
    chosen = options.only.split(",")
    tokens, repeats = options.tokens, options.repeats
    if any(section in chosen for section in ("ordinary", "worst", "slope")):
        print(head(), flush=True)
    sections = {
        "ordinary": lambda: iter([line("ordinary", timed((), tokens, repeats))]),
        "worst": lambda: worst(tokens, repeats),
        "slope": lambda: slope(tokens, repeats),
        "start": lambda: start(repeats),
    }
    for name, rows in sections.items():
        if name in chosen:
            for row in rows():
                print(row, flush=True)


if __name__ == "__main__":
    main()
