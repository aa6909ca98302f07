"""Time ``iscope.analyze`` against the floor: reading the same columns with pyarrow and doing nothing.

python benchmarks/analyze.py [--tokens 30_000_000] [--dump FILE] [--repeats 5]

Every measurement runs in a fresh process on a warm file, floor and analyze in turn. Imports and rendering are left
out: a process first analyzes a small dump. Peak memory is the process's largest resident set less that after
``import torch``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
STATUS = Path("/proc/self/status")
COLUMNS = [
    "rollout_id",
    "group_id",
    "step",
    "trainer_logprobs",
    "inference_logprobs",
    "current_logprobs",
    "loss_mask",
    "advantage",
]
WARM_UP_TOKENS = 200_000  # groups enough for intervals, so that their compiled loops are loaded, too


@dataclass(frozen=True)
class Timing:
    """What the repeated measurements of one dump gave.

    Attributes:
        tokens: of the dump.
        rollouts: of the dump.
        floors: wall seconds of each floor.
        floors_cpu: processor seconds of each.
        analyses: wall seconds of each analyze.
        passes: of these, until the last token was read: the rest is the report.
        passes_cpu: processor seconds of each pass, all threads together.
        peak: bytes above ``import torch``, the most of any analyze.
    """

    tokens: int
    rollouts: int
    floors: list[float]
    floors_cpu: list[float]
    analyses: list[float]
    passes: list[float]
    passes_cpu: list[float]
    peak: float

    @property
    def floor(self) -> float:
        """Median seconds of the floor."""
        return statistics.median(self.floors)

    @property
    def seconds(self) -> float:
        """Median seconds of analyze."""
        return statistics.median(self.analyses)

    @property
    def ratio(self) -> float:
        """Analyze over floor, of the medians."""
        return self.seconds / self.floor

    @property
    def pass_ratio(self) -> float:
        """The pass over the tokens over floor, of the medians."""
        return statistics.median(self.passes) / self.floor

    @property
    def cpu_ratio(self) -> float:
        """The same of processor time, which other processes on the machine disturb less."""
        return statistics.median(self.passes_cpu) / statistics.median(self.floors_cpu)


def make(path: Path, *options: str) -> None:
    """Write a dump in a process of its own, so that its memory is not ours, unless it is there."""
    if not path.exists():
        command = [sys.executable, str(HERE / "make_dump.py"), *options, "--out", str(path)]
        subprocess.run(command, check=True)


def files_of(dump: Path) -> list[Path]:
    """Return the files of a dump: itself, or those in the folder."""
    return sorted(dump.glob("*.parquet")) if dump.is_dir() else [dump]


def peak_bytes() -> int:
    """Return the largest resident set of this process so far, bytes; off Linux also of the one that started it."""
    if STATUS.exists() and (found := re.search(r"VmHWM:\s*(\d+) kB", STATUS.read_text())):
        return int(found[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def floor(dump: str) -> dict[str, float]:
    """Decode the columns and drop them."""
    import pyarrow.parquet as pq

    start, cpu = time.perf_counter(), time.process_time()
    for path in files_of(Path(dump)):
        with pq.ParquetFile(path) as file:
            columns = [name for name in COLUMNS if name in file.schema_arrow.names]
            for _ in file.iter_batches(batch_size=512, columns=columns, use_threads=False):
                pass
    return {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}


def analyze(dump: str, warm_up: str, recipes: list[str] | None = None) -> dict[str, float]:
    """Analyze the dump with some recipes; None for the default ones."""
    import torch  # noqa: F401

    before = peak_bytes()
    import iscope

    iscope.analyze(warm_up, recipes=recipes)
    done: list[tuple[float, float]] = []
    start, cpu = time.perf_counter(), time.process_time()
    iscope.analyze(dump, recipes=recipes, progress=lambda *_: done.append((time.perf_counter(), time.process_time())))
    seconds, spent = time.perf_counter() - start, time.process_time() - cpu
    passed, passed_cpu = done[-1]
    return {
        "seconds": seconds,
        "cpu": spent,
        "pass": passed - start,
        "pass_cpu": passed_cpu - cpu,
        "peak": peak_bytes() - before,
    }


def measure(what: str, dump: Path, warm_up: Path, recipes: Sequence[str] = ()) -> dict[str, float]:
    """Run one measurement in a fresh process, on the iscope of this checkout."""
    command = [sys.executable, __file__, "--measure", what, "--dump", str(dump), "--warm-up", str(warm_up)]
    command += [word for recipe in recipes for word in ("--recipe", recipe)]
    environment = os.environ | {"PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def size_of(dump: Path) -> tuple[int, int]:
    """Return the tokens and the rollouts of a dump, from its footers."""
    import pyarrow.parquet as pq

    tokens = rollouts = 0
    for path in files_of(dump):
        with pq.ParquetFile(path) as file:
            metadata = file.metadata
        paths = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
        leaf = next(index for index, name in enumerate(paths) if name.startswith("trainer_logprobs"))
        tokens += sum(metadata.row_group(i).column(leaf).num_values for i in range(metadata.num_row_groups))
        rollouts += metadata.num_rows
    return tokens, rollouts


def run(dump: Path, repeats: int) -> Timing:
    """Warm a dump's files and measure floor and analyze in turn."""
    with tempfile.TemporaryDirectory() as folder:
        warm_up = Path(folder) / "warm_up.parquet"
        make(warm_up, "--tokens", str(WARM_UP_TOKENS))
        measure("floor", dump, warm_up)
        pairs = [(measure("floor", dump, warm_up), measure("analyze", dump, warm_up)) for _ in range(repeats)]
    analyses = [second for _, second in pairs]
    return Timing(
        *size_of(dump),
        floors=[first["seconds"] for first, _ in pairs],
        floors_cpu=[first["cpu"] for first, _ in pairs],
        analyses=[found["seconds"] for found in analyses],
        passes=[found["pass"] for found in analyses],
        passes_cpu=[found["pass_cpu"] for found in analyses],
        peak=max(found["peak"] for found in analyses),
    )


def report(dump: Path, found: Timing) -> str:
    """Return the table of one dump: medians, and the range of the runs beside them."""

    def row(seconds: list[float]) -> str:
        middle = statistics.median(seconds)
        each = middle / found.tokens * 1e9
        return f"{middle:.3f} s [{min(seconds):.3f}, {max(seconds):.3f}], {each:.1f} ns/token"

    size = sum(path.stat().st_size for path in files_of(dump)) / 1e6
    rows = [
        ("dump", f"{found.tokens:,} tokens, {found.rollouts:,} rollouts, {size:,.0f} MB"),
        ("runs", f"{len(found.floors)}, medians; range in brackets"),
        ("floor", row(found.floors)),
        ("analyze", row(found.analyses)),
        ("token pass", row(found.passes)),
        ("analyze / floor", f"{found.ratio:.2f}"),
        ("pass / floor", f"{found.pass_ratio:.2f}, {found.cpu_ratio:.2f} of processor time"),
        ("throughput", f"{found.tokens / found.seconds / 1e6:.1f}M tokens/s"),
        ("peak memory", f"{found.peak / 2**20:,.0f} MiB above import torch"),
    ]
    return "\n".join(f"{name:<16} {value}" for name, value in rows)


def main() -> None:
    """Parse the command line; ``--measure`` is what the fresh processes are started with."""
    parser = argparse.ArgumentParser(description="Time iscope.analyze against reading the same columns.")
    parser.add_argument("--tokens", type=int, default=30_000_000, help="tokens of the dump that is made")
    parser.add_argument("--dump", type=Path, help="the dump; made there if it is missing; default a temporary one")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--measure", choices=("floor", "analyze"), help=argparse.SUPPRESS)
    parser.add_argument("--warm-up", help=argparse.SUPPRESS)
    parser.add_argument("--recipe", action="append", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        dump = str(options.dump)
        work = floor(dump) if options.measure == "floor" else analyze(dump, options.warm_up, options.recipe)
        print(json.dumps(work))
        return
    with tempfile.TemporaryDirectory() as folder:
        dump = options.dump or Path(folder) / "dump.parquet"
        make(dump, "--tokens", str(options.tokens))
        print(report(dump, run(dump, options.repeats)))


if __name__ == "__main__":
    main()
