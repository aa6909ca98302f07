"""A coverage-guided fuzzer of every reader: files that reach new lines of ``iscope/dump`` are kept and changed further.

Run it from the root of the repository: ``python -m benchmarks.fuzz --seconds 300``. It begins with one file of each
format, changes them at random, and reads the result as a user would. Whatever is not a dump or one sentence (another
exception, more than 10 seconds, a gigabyte) is kept in the folder of ``-o`` and ends the run with exit code 1.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow.parquet as pq

from iscope.dump import Sides, open_dump
from iscope.errors import IscopeError
from tests.dump.importers import layouts

HERE = str(Path(__file__).resolve().parents[1] / "iscope" / "dump")
SLOW, GIGABYTE = 10.0, 1 << 20
WORDS = [
    b"null",
    b"NaN",
    b"-1e999",
    b"1e999",
    b"[]",
    b"{}",
    b'""',
    b"true",
    b"0",
    b"9" * 30,
    b"\xff",
    b"\x00",
    b"\\ud800",
]
NUMBERS = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1]
Seed = tuple[str, bytes]


def seeds() -> list[Seed]:
    """Return one file of each format: its name and its bytes."""
    rows, found = layouts.rollouts(groups=2, size=2), []
    with tempfile.TemporaryDirectory() as folder:
        for index, write in enumerate([*layouts.WHOLE.values(), *layouts.ENGINE.values(), layouts.write_traces]):
            home = Path(folder) / str(index)
            home.mkdir()
            write(rows, home)
            found += [(path.name, path.read_bytes()) for path in home.rglob("*.*") if path.is_file()]
        pq.write_table(layouts.canonical(rows), home / "a.parquet")
        found.append(("a.parquet", (home / "a.parquet").read_bytes()))
    return found


def changed(data: bytes, corpus: list[Seed], rng: random.Random) -> bytes:
    """Return a file with a few changes of random kinds."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        at = rng.randrange(len(made) + 1)
        span = rng.choice((1, 2, 4, 8, 64))
        kinds: list[Callable[[], Any]] = [
            lambda at=at, span=span: made.__delitem__(slice(at, at + span)),
            lambda at=at: made.__setitem__(slice(at, at + 1), bytes([rng.randrange(256)])),
            lambda at=at, span=span: made.__setitem__(slice(at, at), made[at : at + span] * rng.choice((1, 2, 50))),
            lambda at=at, span=span: made.__setitem__(slice(at, at + span), rng.choice(WORDS)),
            lambda at=at: made.__setitem__(
                slice(at, at + 8), rng.choice(NUMBERS).to_bytes(8, rng.choice(("little", "big")))[: rng.choice((4, 8))]
            ),
            lambda at=at, span=span: made.__setitem__(slice(at, at + span), _piece(corpus, rng)),
        ]
        rng.choice(kinds)()
    return bytes(made)


def _piece(corpus: list[Seed], rng: random.Random) -> bytes:
    other = rng.choice(corpus)[1]
    at = rng.randrange(len(other) + 1)
    return other[at : at + rng.choice((4, 16, 64, 256))]


def reached(path: Path) -> set[tuple[str, int]]:
    """Read a file in both ways and return the lines of the readers that ran."""
    lines: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(HERE):
            return None
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        for sides in (None, Sides(trainer=path, inference=path)):
            try:
                for _ in (open_dump([path]) if sides is None else open_dump(sides=sides)).batches():
                    pass
            except IscopeError as error:
                if "\n" in str(error):
                    raise ValueError("an error of several lines") from error
    finally:
        sys.settrace(None)
    return lines


def run(seconds: float, seed: int, output: Path) -> int:
    """Fuzz for some time; return the number of faults."""
    rng, corpus, known = random.Random(seed), seeds(), set[tuple[str, int]]()
    faults, tries, end = 0, 0, time.monotonic() + seconds
    waiting = list(corpus)
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            if waiting:
                name, data = waiting.pop()
            else:
                name, data = rng.choice(corpus)
                data = changed(data, corpus, rng)
            path = Path(folder) / name
            path.write_bytes(data)
            tries += 1
            begun, wrong, lines = time.monotonic(), "", set[tuple[str, int]]()
            try:
                lines = reached(path)
            except Exception:
                wrong = traceback.format_exc()
            if time.monotonic() - begun > SLOW:
                wrong = wrong or f"it took {time.monotonic() - begun:.0f} seconds"
            if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 2 * GIGABYTE:
                print("the process takes more than 2 GiB; the last file is the likely cause", file=sys.stderr)
                wrong = wrong or "memory"
                end = 0
            if wrong:
                faults += 1
                output.mkdir(parents=True, exist_ok=True)
                (output / f"{faults}-{name}").write_bytes(data)
                print(wrong, file=sys.stderr)
            elif lines - known:
                known |= lines
                corpus.append((name, data))
    print(f"{tries} files, {len(known)} lines reached, {len(corpus)} kept, {faults} faults")
    return faults


def main() -> None:
    """Run the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("-o", "--output", type=Path, default=Path("benchmarks/dumps/faults"))
    given = options.parse_args()
    sys.exit(bool(run(given.seconds, given.seed, given.output)))


if __name__ == "__main__":
    main()
