"""Check the token pass on a GPU against the CPU's, and time it. Without a GPU it says so and does nothing.

python -m benchmarks.device_check [--tokens 60_000_000] [--repeats 3]

First the same batches are measured on both, with every recipe of the catalogue at its defaults: how many counts differ
(those of tokens within rounding of a bound may), and by how much sums do. Then a dump is decoded, and analyzed with the
default recipes on either device: decoding should be the limit on a GPU. It takes less than four minutes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from benchmarks.make_dump import Shape, make_dump
from iscope.api import make_plan
from iscope.dump import Dump, Sides, open_dump
from iscope.engines import local
from iscope.engines.device import batch_tokens
from iscope.ledger.measure import Measured, measure
from iscope.ledger.plan import Plan
from iscope.recipes import bind, frameworks
from iscope.replay.segments import Segments
from iscope.replay.to_device import to_device
from iscope.rollouts import RolloutBatch

SAMPLE = Path(__file__).resolve().parent.parent / "sample_data"
PAIRS = (("base", "trainer_fp32_lag0"), ("train_sync", "trainer_bf16"), ("train_async", "trainer_fp32"))
# Larger errors than these of a sum, over the sum of the sizes of its terms, are no rounding. Statistics that filters
# test are float32, whose exponentials differ in the last bit from one library to the next.
SUM_ERROR, STATISTIC_ERROR = 1e-12, 1e-5
# More rollouts than this share with a token that rounding moves over a bound would be a surprise, and more tokens than
# this share of the histograms' entries in another bin.
MOVED, REBINNED = 1e-2, 1e-3
GIGA = 1e9
SMALLEST = np.finfo(np.float64).tiny


@dataclass
class Agreement:
    """How two measurements of the same rollouts agree.

    Attributes:
        rollouts: looked at.
        moved: those with a count that differs.
        entries: of the histograms.
        rebinned: those in another bin.
        worst: largest error of a sum of the others, over its scale, by kind, and the column it is in.
    """

    rollouts: int = 0
    moved: int = 0
    entries: int = 0
    rebinned: int = 0
    worst: dict[str, tuple[float, str]] = field(default_factory=lambda: {"sums": (0.0, ""), "statistics": (0.0, "")})

    def add(self, found: Measured, expected: Measured) -> None:
        """Hold one batch against another; a column that only one has, or an infinity that differs, is infinite."""
        here = {name: values.numpy() for name, values in expected.columns.items()}
        there = {name: values.numpy() for name, values in found.columns.items()}
        if set(here) != set(there):
            self.worst["sums"] = (float("inf"), ", ".join(sorted(set(here) ^ set(there))))
            return
        same = np.ones(len(here["tokens"]), dtype=bool)
        for name, values in here.items():
            if values.dtype.kind != "f":
                same &= values == there[name]
        for name, counts in expected.histograms.items():
            self.entries += int(counts.sum())
            self.rebinned += int(np.abs(counts - found.histograms[name]).sum()) // 2
        self.rollouts += len(same)
        self.moved += int((~same).sum())
        scale = sum(values for name, values in here.items() if name.endswith(":exp_abs_sum")) + here["tokens"]
        for name, values in here.items():
            if values.dtype.kind == "f" and same.any():
                kind = "statistics" if ":statistic" in name else "sums"
                error = _error(there[name][same], values[same], scale[same])
                self.worst[kind] = max(self.worst[kind], (error, name))

    @property
    def passed(self) -> bool:
        """Whether all of it is rounding."""
        small = self.worst["sums"][0] <= SUM_ERROR and self.worst["statistics"][0] <= STATISTIC_ERROR
        return small and self.moved <= MOVED * self.rollouts and self.rebinned <= REBINNED * self.entries

    def __str__(self) -> str:
        """Return it in a line."""
        (sums, column), (tested, _) = self.worst["sums"], self.worst["statistics"]
        return (
            f"{self.moved} of {self.rollouts:,} rollouts with another count, {self.rebinned} of {self.entries:,} "
            f"entries in another bin; error of a sum <= {sums:.1e} ({column}), of a float32 statistic <= {tested:.1e}"
        )


def _error(found: np.ndarray, expected: np.ndarray, scale: np.ndarray) -> float:
    equal = (found == expected) | (np.isnan(found) & np.isnan(expected))
    finite = np.isfinite(found) & np.isfinite(expected)
    if (~equal & ~finite).any():
        return float("inf")
    found, expected, scale = found[~equal], expected[~equal], scale[~equal]
    error = np.abs(found - expected) / np.maximum.reduce([np.abs(expected), scale, np.full_like(scale, SMALLEST)])
    return float(error.max(initial=0.0))


def every_recipe() -> Plan:
    """Return the plan with all recipes of the catalogue at their defaults."""
    return Plan(tuple(bind(row, table, {}) for table in frameworks() for row in table.recipes))


def sample_dumps() -> Iterator[tuple[str, Dump]]:
    """Yield the real dumps of the repository."""
    for folder, trainer in PAIRS:
        sides = Sides(trainer=(SAMPLE / folder / f"{trainer}.parquet",), inference=(SAMPLE / folder / "vllm.parquet",))
        yield f"sample, {folder}", open_dump((), sides=sides)


def agreement(dump: Dump, device: torch.device, plan: Plan) -> Agreement:
    """Measure every batch on the CPU and on a device."""
    found = Agreement()
    for batch in dump.batches():
        found.add(measure(to_device(batch, device), plan), measure(batch, plan))
    return found


def seconds(work: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Median wall seconds of some work, the device's included; once more before, not counted."""
    taken = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[1:])


def timings(dump: Dump, device: torch.device, repeats: int) -> list[tuple[str, str]]:
    """Time decoding, the pass on either device, and its parts on the device."""
    plan = make_plan()
    cpu = seconds(lambda: local.run(dump.batches(), plan), torch.device("cpu"), 1)
    dump.batch_tokens = batch_tokens(device)
    decoded = seconds(lambda: sum(batch.tokens for batch in dump.batches()), torch.device("cpu"), repeats)
    there = seconds(lambda: local.run(dump.batches(), plan, device=device), device, repeats)
    batch = next(iter(dump.batches()))
    moved = to_device(batch, device)
    copied = seconds(lambda: to_device(batch, device), device, repeats)
    measured = seconds(lambda: measure(moved, plan), device, repeats)
    values = moved.trainer_logprobs.double()
    reduced = seconds(lambda: [Segments(moved.offsets).sum(values) for _ in range(10)], device, repeats) / 10
    tokens = sum(one.tokens for one in dump.batches())
    return [
        ("pass on the CPU", _rate(tokens, cpu)),
        ("decode alone", _rate(tokens, decoded)),
        (f"pass on {device.type}", _rate(tokens, there)),
        ("pass / decode", f"{there / decoded:.2f} (1 is the limit: nothing but decoding is waited for)"),
        ("pass, CPU / device", f"{cpu / there:.2f}"),
        ("one batch", f"{batch.tokens:,} tokens, {len(batch):,} rollouts"),
        ("  copy", f"{_rate(batch.tokens, copied)}, {_bytes(batch) / copied / GIGA:.1f} GB/s with page-locking"),
        (
            "  measure",
            f"{_rate(batch.tokens, measured)}, {_bytes(batch) / measured / GIGA:.1f} GB/s of columns read",
        ),
        (
            "  one segment sum",
            f"{_rate(batch.tokens, reduced)}, {values.nbytes / reduced / GIGA:.0f} GB/s of float64",
        ),
        ("copy + measure / decode", f"{(copied + measured) / batch.tokens * tokens / decoded:.2f} on one thread"),
    ]


def _rate(tokens: int, taken: float) -> str:
    return f"{taken:.3f} s, {tokens / taken / 1e6:.1f}M tokens/s"


def _bytes(batch: RolloutBatch) -> int:
    columns = (batch.trainer_logprobs, batch.inference_logprobs, batch.current_logprobs, batch.loss_mask)
    return sum(column.nbytes for column in columns if column is not None)


def check(device: torch.device, tokens: int, repeats: int) -> bool:
    """Print both tables; return whether the results agree."""
    passed = True
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small.parquet", Path(folder) / "large.parquet"
        make_dump(small, Shape(tokens=min(tokens, 500_000), current=True))
        for name, dump in (*sample_dumps(), ("made, with current logprobs", open_dump((small,)))):
            found = agreement(dump, device, every_recipe())
            passed &= found.passed
            print(f"{'ok' if found.passed else 'DIFFERS':<8}{name:<28} {found}")
        make_dump(large, Shape(tokens=tokens))
        for name, value in timings(open_dump((large,)), device, repeats):
            print(f"{name:<24} {value}")
    return passed


def main() -> int:
    """Parse the command line; return 1 where the device gives something else than the CPU."""
    parser = argparse.ArgumentParser(description="Check and time the token pass on a GPU.")
    parser.add_argument("--tokens", type=int, default=60_000_000, help="tokens of the dump that is timed")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print(f"torch {torch.__version__} finds no CUDA device here: nothing was checked.")
        return 0
    device = torch.device("cuda", torch.cuda.current_device())
    start = time.perf_counter()
    print(f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    passed = check(device, options.tokens, options.repeats)
    print(f"{time.perf_counter() - start:.0f} s in all; {'the results agree' if passed else 'THE RESULTS DIFFER'}.")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
