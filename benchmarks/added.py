"""What one more recipe costs ``iscope.analyze``: twenty are added to the default ones, and the difference is divided.

python -m benchmarks.added [--tokens 30_000_000] [--dump FILE] [--repeats 5]

The cost is wall time over the floor of ``benchmarks/analyze.py``, report included. The twenty have twenty different
bounds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.analyze import WARM_UP_TOKENS, make, measure
from benchmarks.bars import HEAD, Bar
from iscope.recipes.defaults import DEFAULT_RECIPES

ADDED = 20
BOUNDS = [1.5 + 0.17 * place for place in range(ADDED)]
RECIPES = {
    "token": [f"trl/token_mask:clip_min=0.5,clip_max={bound:.2f}" for bound in BOUNDS],
    "sequence": [f"trl/sequence_mask:clip_max={bound:.2f}" for bound in BOUNDS],
}
LIMITS = {"token": 0.05, "sequence": 0.01}


@dataclass(frozen=True)
class Round:
    """Wall seconds of one round: the floor, the default recipes, and these with twenty more of each level."""

    floor: float
    plain: float
    more: dict[str, float]


def rounds(dump: Path, repeats: int) -> list[Round]:
    """Measure in turn, each in a fresh process on a warm file."""
    with tempfile.TemporaryDirectory() as folder:
        warm_up = Path(folder) / "warm_up.parquet"
        make(warm_up, "--tokens", str(WARM_UP_TOKENS))
        measure("floor", dump, warm_up)

        def analyzed(added: Sequence[str] = ()) -> float:
            return measure("analyze", dump, warm_up, (*DEFAULT_RECIPES, *added))["seconds"]

        return [
            Round(
                measure("floor", dump, warm_up)["seconds"],
                analyzed(),
                {level: analyzed(added) for level, added in RECIPES.items()},
            )
            for _ in range(repeats)
        ]


def bars(found: Sequence[Round]) -> list[Bar]:
    """Return the cost of one more recipe of each level over the floor; the range is of the rounds."""
    floor, plain = (statistics.median(getattr(one, name) for one in found) for name in ("floor", "plain"))
    return [
        Bar(
            f"one more {level}-level recipe / floor",
            (statistics.median(one.more[level] for one in found) - plain) / ADDED / floor,
            [(one.more[level] - one.plain) / ADDED / one.floor for one in found],
            limit,
            "{:.1%}",
        )
        for level, limit in LIMITS.items()
    ]


def main() -> None:
    """Parse the command line, measure and print."""
    parser = argparse.ArgumentParser(description="What one more recipe costs iscope.analyze.")
    parser.add_argument("--tokens", type=int, default=30_000_000, help="tokens of the dump that is made")
    parser.add_argument("--dump", type=Path, help="the dump; made there if it is missing; default a temporary one")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        dump = options.dump or Path(folder) / "dump.parquet"
        make(dump, "--tokens", str(options.tokens))
        print(HEAD)
        for bar in bars(rounds(dump, options.repeats)):
            print(bar.line)


if __name__ == "__main__":
    main()
