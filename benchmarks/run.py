"""Every bar of speed and memory as one table, in ratios: what was measured, its range, the bar, and whether it holds.

python -m benchmarks.run [--tokens 30_000_000] [--repeats 5] [--repeat 3] [--only floor,...] [--quick] [--folder DIR]
                         [--peer verl,trl] [--peer-python FILE]

A section each, which ``--only`` chooses:

- ``floor``: analyze over reading the same columns and doing nothing (``benchmarks/analyze.py``), its pass over the
  tokens alone over the same, and its peak memory.
- ``added``: one more recipe, token-level and sequence-level, over the floor (``benchmarks/added.py``).
- ``compare``: 200 token-level and 200 sequence-level settings over analyze (``benchmarks/compare.py``).
- ``memory``: peak memory of analyze with a million rollouts.
- ``peers``: tokens a second over those of verl's and TRL's own code, where they are installed
  (``benchmarks/peers.py``).
- ``start``: the commands that must start quickly and without torch (``benchmarks/start.py``).
- ``slope``: ten times the dump over the dump (``benchmarks/slope.py``).
- ``hard``: dumps that are hard in one way each (``benchmarks/hard.py``), a tenth as large and without a bar.

``--repeat`` prints the table as often as it says, and at the end how often each bar held. ``--quick`` tries everything
but the hard dumps on dumps so small that fixed costs fill them: it shows that the table works, and holds nothing. Dumps
are made in ``--folder``, or in one that is dropped at the end.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import added, analyze, compare, hard, peers, slope, start
from benchmarks.bars import HEAD, Bar, add_choice, over, summary

MIB = 2**20
GIB_IN_MIB = 1024
SHARES, QUICK_SHARES = (1 / 30, 1 / 10, 1 / 3, 1.0), (1 / 10, 1.0)
TENFOLD = 10.5
QUICK_TOKENS, QUICK_ROLLOUTS = 600_000, 20_000
ROLLOUTS, SHORT = 1_000_000, 30

Rows = Iterator[Bar | str]


@dataclass(frozen=True)
class Setup:
    """What to measure on.

    Attributes:
        folder: where dumps are, or are made.
        tokens: of the ordinary dump.
        rollouts: of the dump that memory is measured on.
        shares: of these tokens, the sizes of the dumps for the slope.
        repeats: measurements of each, in fresh processes.
        peers: the frameworks to measure.
        peer_python: the interpreter that they are installed for.
    """

    folder: Path
    tokens: int
    rollouts: int
    shares: tuple[float, ...]
    repeats: int
    peers: list[str]
    peer_python: str

    @property
    def dump(self) -> Path:
        """The ordinary dump, made on first use."""
        path = self.folder / f"{self.tokens}.parquet"
        analyze.make(path, "--tokens", str(self.tokens))
        return path


def floor(setup: Setup) -> Rows:
    """Yield analyze and its pass over the floor, and the peak of memory."""
    found = analyze.run(setup.dump, setup.repeats)
    yield over("analyze / floor", found.analyses, found.floors, 1.5)
    yield over("  its pass over the tokens / floor", found.passes, found.floors)
    yield over("  the same, processor time", found.passes_cpu, found.floors_cpu)
    yield memory_of(found.rollouts, found.peak)


def memory_of(rollouts: int, peak: float) -> Bar:
    """Return the peak of memory above ``import torch``, MiB."""
    return Bar(f"MiB, {rollouts:,} rollouts", peak / MIB, [peak / MIB], GIB_IN_MIB, "{:,.0f}")


def added_recipes(setup: Setup) -> Rows:
    """Yield what one more recipe costs."""
    yield from added.bars(added.rounds(setup.dump, setup.repeats))


def settings(setup: Setup) -> Rows:
    """Yield compare over analyze."""
    pairs = compare.run(setup.dump, setup.tokens, setup.repeats)
    analyzed, compared = zip(*pairs, strict=True)
    count = int(compared[0]["settings"])
    yield over(
        f"compare over {count} settings / analyze",
        [one["seconds"] for one in compared],
        [one["seconds"] for one in analyzed],
        2.0,
    )


def memory(setup: Setup) -> Rows:
    """Yield the peak of memory of analyze with very many rollouts, from one run: it hardly varies."""
    dump, warm_up = setup.folder / f"{setup.rollouts}_rollouts.parquet", setup.folder / "warm_up.parquet"
    analyze.make(dump, "--tokens", str(setup.rollouts * SHORT), "--mean-length", str(SHORT), "--one-length")
    analyze.make(warm_up, "--tokens", str(analyze.WARM_UP_TOKENS))
    yield memory_of(setup.rollouts, analyze.measure("analyze", dump, warm_up)["peak"])


def against_peers(setup: Setup) -> Rows:
    """Yield tokens a second over those of the frameworks."""
    yield from peers.compared(setup.peers, setup.peer_python, setup.dump, min(setup.repeats, 3))


def starts(setup: Setup) -> Rows:
    """Yield the time of the commands that must be quick."""
    yield from start.bars(2 * setup.repeats - 1)


def sizes(setup: Setup) -> Rows:
    """Yield ten times the dump over the dump, of the worst pair of sizes, and the exponent."""
    repeats = min(setup.repeats, 3)
    points = [slope.measured(int(setup.tokens * share), setup.folder, repeats) for share in setup.shares]
    times = [other.seconds / one.seconds for one, other in slope.tenfold(points)]
    yield Bar("ten times the tokens, times the time", max(times), times, TENFOLD)
    tokens, seconds = (np.log([getattr(point, name) for point in points]) for name in ("tokens", "seconds"))
    exponent = float(np.polyfit(tokens, seconds, 1)[0])
    yield Bar("  time grows with tokens to the power of", exponent, [exponent])


def hard_dumps(setup: Setup) -> Rows:
    """Yield the table of hard dumps."""
    yield ""
    yield hard.HEAD
    yield from hard.lines(setup.tokens // 10, min(setup.repeats, 3))


SECTIONS: dict[str, Callable[[Setup], Rows]] = {
    "floor": floor,
    "added": added_recipes,
    "compare": settings,
    "memory": memory,
    "peers": against_peers,
    "start": starts,
    "slope": sizes,
    "hard": hard_dumps,
}


def table(setup: Setup, chosen: list[str]) -> list[Bar]:
    """Print the rows of some sections as they are measured, and return the bars."""
    found = []
    print(HEAD, flush=True)
    for name in chosen:
        for row in SECTIONS[name](setup):
            print(row if isinstance(row, str) else row.line, flush=True)
            if isinstance(row, Bar):
                found.append(row)
    return found


def main() -> None:
    """Parse the command line and print the table, as often as it is asked for."""
    parser = argparse.ArgumentParser(description="Print the table of every bar of speed and memory.")
    parser.add_argument("--tokens", type=int, default=30_000_000, help="tokens of the ordinary dump")
    parser.add_argument("--rollouts", type=int, default=ROLLOUTS, help="rollouts of the dump for peak memory")
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each, of which the median counts")
    parser.add_argument("--repeat", type=int, default=1, help="how many times to print the whole table")
    add_choice(parser, "--only", "section", SECTIONS)
    parser.add_argument("--quick", action="store_true", help="small dumps, one measurement each, no hard dumps")
    parser.add_argument("--folder", type=Path, help="where dumps are, or are made and kept; default a temporary one")
    peers.add_options(parser)
    options = parser.parse_args()
    if options.quick:
        options.tokens, options.rollouts, options.repeats = QUICK_TOKENS, QUICK_ROLLOUTS, 1
        options.only = [name for name in options.only if name != "hard"]
        print("quick: the dumps are too small for the bars, which are printed all the same")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        shares = QUICK_SHARES if options.quick else SHARES
        setup = Setup(
            folder, options.tokens, options.rollouts, shares, options.repeats, options.peer, options.peer_python
        )
        tables = []
        for turn in range(options.repeat):
            if options.repeat > 1:
                print(f"\ntable {turn + 1} of {options.repeat}")
            tables.append(table(setup, options.only))
    if options.repeat > 1:
        print("", *summary(tables), sep="\n")


if __name__ == "__main__":
    main()
