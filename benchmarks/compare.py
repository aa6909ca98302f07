"""Time ``iscope.compare`` over 200 token-level and 200 sequence-level settings against ``iscope.analyze``.

python -m benchmarks.compare [--tokens 30_000_000] [--dump FILE] [--repeats 5]

Every measurement runs in a fresh process on a warm file, analyze and compare in turn, without imports and rendering.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.analyze import WARM_UP_TOKENS, make, peak_bytes

HERE = Path(__file__).resolve().parent
RECIPES = ["trl/token_mask", "trl/sequence_mask"]
SWEEPS = ["clip_max=1.2:12:20:log", "clip_min=0.05:0.95:10"]


Pairs = list[tuple[dict[str, float], dict[str, float]]]


def timed(what: str, dump: str, warm_up: str) -> dict[str, float]:
    """Analyze the dump with the default recipes, or compare the settings on it."""
    import torch  # noqa: F401

    before = peak_bytes()
    import iscope

    def run(path: str) -> int:
        if what == "analyze":
            return len(iscope.analyze(path).recipes)
        return len(iscope.compare(path, recipes=RECIPES, sweep=SWEEPS).recipes)

    run(warm_up)
    start = time.perf_counter()
    settings = run(dump)
    return {"seconds": time.perf_counter() - start, "peak": peak_bytes() - before, "settings": settings}


def measure(what: str, dump: Path, warm_up: Path) -> dict[str, float]:
    """Run one measurement in a fresh process, on the iscope of this checkout."""
    command = [sys.executable, __file__, "--measure", what, "--dump", str(dump), "--warm-up", str(warm_up)]
    environment = os.environ | {"PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def report(pairs: Pairs) -> str:
    """Return the table: medians, the range of the runs beside them, and the ratio of each pair of runs."""
    rows = []
    for place, name in enumerate(("analyze", "compare")):
        seconds = [pair[place]["seconds"] for pair in pairs]
        rows.append((name, f"{statistics.median(seconds):.3f} s [{min(seconds):.3f}, {max(seconds):.3f}]"))
    ratios = [compared["seconds"] / analyzed["seconds"] for analyzed, compared in pairs]
    rows += [
        ("settings", f"{pairs[0][1]['settings']:.0f}"),
        ("compare / analyze", f"{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"),
        ("peak memory", f"{max(compared['peak'] for _, compared in pairs) / 2**20:,.0f} MiB above import torch"),
    ]
    return "\n".join(f"{name:<18} {value}" for name, value in rows)


def run(dump: Path, tokens: int, repeats: int) -> Pairs:
    """Make what is missing, warm the file and measure analyze and compare in turn."""
    make(dump, "--tokens", str(tokens))
    with tempfile.TemporaryDirectory() as folder:
        warm_up = Path(folder) / "warm_up.parquet"
        make(warm_up, "--tokens", str(WARM_UP_TOKENS))
        measure("analyze", dump, warm_up)
        return [(measure("analyze", dump, warm_up), measure("compare", dump, warm_up)) for _ in range(repeats)]


def main() -> None:
    """Parse the command line; ``--measure`` is what the fresh processes are started with."""
    parser = argparse.ArgumentParser(description="Time iscope.compare over 400 settings against iscope.analyze.")
    parser.add_argument("--tokens", type=int, default=30_000_000, help="tokens of the dump that is made")
    parser.add_argument("--dump", type=Path, help="the dump; made there if it is missing; default a temporary one")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--measure", choices=("analyze", "compare"), help=argparse.SUPPRESS)
    parser.add_argument("--warm-up", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(timed(options.measure, str(options.dump), options.warm_up)))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(report(run(options.dump or Path(folder) / "dump.parquet", options.tokens, options.repeats)))


if __name__ == "__main__":
    main()
