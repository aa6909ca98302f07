"""How the time and the memory of ``iscope.analyze`` grow with the dump.

python -m benchmarks.slope [--up-to 30_000_000] [--repeats 3] [--folder DIR]

Dumps of 1M, 3M, 10M, ... tokens, each measurement in a fresh process on a warm file. The bars: ten times the dump takes
at most 10.5 times as long, and no more memory than its ledger, a row for each rollout, asks for.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.analyze import WARM_UP_TOKENS, make, measure, size_of

SIZES = (1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000, 300_000_000)


@dataclass(frozen=True)
class Point:
    """One size.

    Attributes:
        tokens: of the dump.
        rollouts: of the dump.
        seconds: of analyze with its report, median.
        passed: of these, until the last token was read, median.
        peak: bytes above ``import torch``, the most.
    """

    tokens: int
    rollouts: int
    seconds: float
    passed: float
    peak: float


def measured(tokens: int, folder: Path, repeats: int) -> Point:
    """Make a dump of a size, unless it is there, and measure it."""
    dump, warm_up = folder / f"{tokens}.parquet", folder / "warm_up.parquet"
    make(warm_up, "--tokens", str(WARM_UP_TOKENS))
    make(dump, "--tokens", str(tokens))
    measure("floor", dump, warm_up)  # warms the file
    runs = [measure("analyze", dump, warm_up) for _ in range(repeats)]
    seconds, passed = (statistics.median(run[name] for run in runs) for name in ("seconds", "pass"))
    return Point(*size_of(dump), seconds, passed, max(run["peak"] for run in runs))


def slope(points: Sequence[Point]) -> float:
    """Seconds of the pass for one more token, by least squares over at least two sizes."""
    x, y = [point.tokens for point in points], [point.passed for point in points]
    return statistics.linear_regression(x, y).slope


def tenfold(points: Sequence[Point]) -> list[tuple[Point, Point]]:
    """Pairs of sizes of which one is about ten times the other."""
    return [(one, other) for one in points for other in points if 9.5 <= other.tokens / one.tokens <= 10.5]


def table(points: Sequence[Point]) -> str:
    """Return what was measured, as lines of text."""
    lines = [f"{'tokens':>13} {'rollouts':>9} {'analyze s':>10} {'pass s':>8} {'pass ns/token':>14} {'peak MiB':>9}"]
    lines += [
        f"{point.tokens:>13,} {point.rollouts:>9,} {point.seconds:>10.2f} {point.passed:>8.2f} "
        f"{point.passed / point.tokens * 1e9:>14.1f} {point.peak / 2**20:>9,.0f}"
        for point in points
    ]
    if len(points) > 1:
        lines.append(f"slope of the pass: {slope(points) * 1e9:.1f} ns a token")
    for one, other in tenfold(points):
        lines.append(
            f"{one.tokens:,} to {other.tokens:,} tokens: analyze {other.seconds / one.seconds:.2f} times, pass "
            f"{other.passed / one.passed:.2f} times, {(other.peak - one.peak) / 2**20:+,.0f} MiB"
        )
    return "\n".join(lines)


def main() -> None:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(description="How time and memory of iscope.analyze grow with the dump.")
    parser.add_argument("--sizes", type=int, nargs="*", help="tokens of the dumps, instead of 1M, 3M, 10M, ...")
    parser.add_argument("--up-to", type=int, default=30_000_000, help="tokens of the largest dump")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the dumps are, or are made; default a temporary one")
    options = parser.parse_args()
    sizes = options.sizes or [size for size in SIZES if size <= options.up_to]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        print(table([measured(size, folder, options.repeats) for size in sizes]))


if __name__ == "__main__":
    main()
