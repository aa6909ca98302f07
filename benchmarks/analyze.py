"""Time ``iscope.analyze`` against the floor: reading the same columns with pyarrow and doing nothing.

python benchmarks/analyze.py [--tokens 30_000_000] [--dump FILE] [--repeats 5]

Every measurement runs in a fresh process on a warm file, floor and analyze in turn. Imports and rendering are left
out: a process first analyzes a tiny dump. Peak memory is the process's largest resident set less that after
``import torch``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
COLUMNS = [
    "rollout_id",
    "group_id",
    "step",
    "trainer_logprobs",
    "inference_logprobs",
    "loss_mask",
    "advantage",
]
WARM_UP_TOKENS = 50_000


def make(path: Path, tokens: int) -> None:
    """Write the dump in a process of its own, so that its memory is not ours, unless it is there."""
    if not path.exists():
        command = [sys.executable, str(HERE / "make_dump.py"), "--tokens", str(tokens), "--out", str(path)]
        subprocess.run(command, check=True)


def peak_bytes() -> int:
    """Return the largest resident set of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def floor(dump: str) -> dict[str, float]:
    """Decode the columns and drop them."""
    import pyarrow.parquet as pq

    start = time.perf_counter()
    with pq.ParquetFile(dump) as file:
        for _ in file.iter_batches(batch_size=512, columns=COLUMNS, use_threads=False):
            pass
    return {"seconds": time.perf_counter() - start}


def analyze(dump: str, warm_up: str) -> dict[str, float]:
    """Analyze the dump with the default recipes."""
    import torch  # noqa: F401

    before = peak_bytes()
    import iscope

    iscope.analyze(warm_up)
    start = time.perf_counter()
    iscope.analyze(dump)
    return {"seconds": time.perf_counter() - start, "peak": peak_bytes() - before}


def measure(what: str, dump: Path, warm_up: Path) -> dict[str, float]:
    """Run one measurement in a fresh process, on the iscope of this checkout."""
    command = [sys.executable, __file__, "--measure", what, "--dump", str(dump), "--warm-up", str(warm_up)]
    environment = os.environ | {"PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def report(dump: Path, floors: list[float], analyses: list[dict[str, float]]) -> str:
    """Return the table: medians, and the range of the runs beside them."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(dump) as file:
        rollouts = file.metadata.num_rows
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    index = next(i for i in range(groups[0].num_columns) if "trainer_logprobs" in groups[0].column(i).path_in_schema)
    tokens = sum(group.column(index).num_values for group in groups)
    seconds = [run["seconds"] for run in analyses]
    low, high = statistics.median(floors), statistics.median(seconds)
    size = f"{len(groups)} row groups, {dump.stat().st_size / 1e6:,.0f} MB"
    rows = [
        ("dump", f"{tokens:,} tokens, {rollouts:,} rollouts, {size}"),
        ("runs", f"{len(floors)}, medians; range in brackets"),
        ("floor", f"{low:.3f} s [{min(floors):.3f}, {max(floors):.3f}], {low / tokens * 1e9:.1f} ns/token"),
        ("analyze", f"{high:.3f} s [{min(seconds):.3f}, {max(seconds):.3f}], {high / tokens * 1e9:.1f} ns/token"),
        ("analyze / floor", f"{high / low:.2f}"),
        ("throughput", f"{tokens / high / 1e6:.1f}M tokens/s"),
        ("peak memory", f"{max(run['peak'] for run in analyses) / 2**20:,.0f} MiB above import torch"),
    ]
    return "\n".join(f"{name:<16} {value}" for name, value in rows)


def run(dump: Path, tokens: int, repeats: int) -> str:
    """Make what is missing, warm the file, measure in turn and return the table."""
    make(dump, tokens)
    with tempfile.TemporaryDirectory() as folder:
        warm_up = Path(folder) / "warm_up.parquet"
        make(warm_up, WARM_UP_TOKENS)
        measure("floor", dump, warm_up)
        pairs = [(measure("floor", dump, warm_up), measure("analyze", dump, warm_up)) for _ in range(repeats)]
    return report(dump, [first["seconds"] for first, _ in pairs], [second for _, second in pairs])


def main() -> None:
    """Parse the command line; ``--measure`` is what the fresh processes are started with."""
    parser = argparse.ArgumentParser(description="Time iscope.analyze against reading the same columns.")
    parser.add_argument("--tokens", type=int, default=30_000_000, help="tokens of the dump that is made")
    parser.add_argument("--dump", type=Path, help="the dump; made there if it is missing; default a temporary one")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--measure", choices=("floor", "analyze"), help=argparse.SUPPRESS)
    parser.add_argument("--warm-up", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        dump = str(options.dump)
        print(json.dumps(floor(dump) if options.measure == "floor" else analyze(dump, options.warm_up)))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(run(options.dump or Path(folder) / "dump.parquet", options.tokens, options.repeats))


if __name__ == "__main__":
    main()
