"""Dumps that are hard in one way each, made one at a time and measured against an ordinary one of the same size.

python -m benchmarks.hard [--tokens 3_000_000] [--repeats 3] [--only CHARACTERS_OF_A_NAME]

Each row: time of analyze for a token, analyze over the dump's own floor, the pass over the tokens alone over the floor,
the same of processor time, how many times more processor time the pass takes for a token than in the ordinary dump, and
peak memory above ``import torch``.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.analyze import Timing, make, run

# Name, options of make_dump.py, share of the tokens asked for.
DUMPS = (
    ("ordinary", (), 1.0),
    ("everything in the tail", ("--tail-share", "1"), 1.0),
    ("rollouts of 131,072 tokens", ("--mean-length", "131072", "--one-length"), 1.0),
    ("one huge row group", ("--row-group-size", "100000000"), 1.0),
    ("row groups of 8 rollouts", ("--row-group-size", "8"), 1.0),
    ("rollouts of 5 tokens", ("--mean-length", "5"), 0.5),
    ("1,000 files", ("--files", "1000"), 1.0),
    ("with current logprobs", ("--current",), 1.0),
    ("with token ids", ("--token-ids",), 1.0),
)
LINE = "{:<28} {:>12} {:>11} {:>10} {:>8} {:>8} {:>8} {:>8} {:>10}"
HEAD = LINE.format("dump", "tokens", "rollouts", "a token", "/ floor", "pass", "pass cpu", "/ plain", "memory")


def timed(options: tuple[str, ...], tokens: int, repeats: int) -> Timing:
    """Make a dump, measure it and drop it."""
    with tempfile.TemporaryDirectory() as folder:
        dump = Path(folder) / "dump.parquet"
        make(dump, "--tokens", str(tokens), *options)
        return run(dump, repeats)


def line(name: str, found: Timing, cost: float) -> str:
    """Return a row of the table."""
    return LINE.format(
        name,
        f"{found.tokens:,}",
        f"{found.rollouts:,}",
        f"{found.seconds / found.tokens * 1e9:.1f} ns",
        f"{found.ratio:.2f}",
        f"{found.pass_ratio:.2f}",
        f"{found.cpu_ratio:.2f}",
        f"{cost:.2f}",
        f"{found.peak / 2**20:,.0f} MiB",
    )


def lines(tokens: int, repeats: int, only: str = "") -> Iterator[str]:
    """Yield a row for the ordinary dump and for each hard one whose name has ``only`` in it."""
    plain = 0.0
    for name, options, share in DUMPS:
        if plain and only not in name:
            continue
        found = timed(options, int(tokens * share), repeats)
        each = statistics.median(found.passes_cpu) / found.tokens
        plain = plain or each
        yield line(name, found, each / plain)


def main() -> None:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(description="Measure dumps that are hard in one way each.")
    parser.add_argument("--tokens", type=int, default=3_000_000, help="tokens of a dump; half of them for the shortest")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", metavar="CHARACTERS", help="only dumps whose name has these in it")
    options = parser.parse_args()
    print(HEAD, flush=True)
    for row in lines(options.tokens, options.repeats, options.only):
        print(row, flush=True)


if __name__ == "__main__":
    main()
