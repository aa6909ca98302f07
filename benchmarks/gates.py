"""How often default gates fail on two halves of one healthy run, and how often they catch a wider gap.

    python -m benchmarks.gates [--pairs 100] [--seed 0] [--sample DIR]

The groups of every healthy dump are split at random into two halves, steps apart, and one half is the baseline of the
other: other prompts and other samples of the same run. A gate that fails there is a false alarm. Then the log-ratios of
the other half are scaled until its k3 is 1.5, 2 and 5 times as large: inference + s (trainer - inference), one s for
all tokens. Verdicts are counted over all pairs to which a gate applied.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import iscope  # noqa: E402
from iscope.gates import baseline_of  # noqa: E402
from iscope.gates.comparable import Terms, differing  # noqa: E402
from iscope.gates.defaults import default_gates, tracked  # noqa: E402
from iscope.gates.judge import judge  # noqa: E402
from iscope.model.check import FAIL, PASS, WARN  # noqa: E402

SAMPLE = ROOT / "tests" / "data" / "sample"
HEALTHY = (
    ("base", "trainer_fp32_lag0"),
    ("base", "trainer_bf16_lag0"),
    ("train_sync", "trainer_bf16"),
    ("engine_fp16", "trainer_fp32"),
    ("engine_fp32", "trainer_fp32"),
    ("temp07_processed", "trainer_fp32_t07"),
)
FACTORS = (1.0, 1.5, 2.0, 5.0)
Halves = tuple[pl.DataFrame, pl.DataFrame]


def read(sample: Path, dump: str, trainer: str) -> pl.DataFrame:
    """Join the two sides of a real dump into one table."""
    engine = pl.read_parquet(sample / dump / "vllm.parquet").rename({"logprobs": "inference_logprobs"})
    own = pl.read_parquet(sample / dump / f"{trainer}.parquet").rename({"logprobs": "trainer_logprobs"})
    return engine.join(own.drop("step"), on="rollout_id")


def halves(table: pl.DataFrame, rng: np.random.Generator) -> Halves:
    """Split the groups of each step at random."""
    first: list[object] = []
    for _, part in sorted(table.group_by(["step"]), key=lambda entry: str(entry[0])):
        groups = part["group_id"].unique().sort().to_list()
        first += [groups[index] for index in rng.permutation(len(groups))[: len(groups) // 2]]
    chosen = pl.col("group_id").is_in(first)
    return table.filter(chosen), table.filter(~chosen)


def widened(table: pl.DataFrame, factor: float) -> pl.DataFrame:
    """Scale the log-ratios until k3 over loss tokens is ``factor`` times as large."""
    if factor == 1.0:
        return table
    flat = table.select("inference_logprobs", "trainer_logprobs", "loss_mask").explode(pl.all())
    apart = (flat["trainer_logprobs"] - flat["inference_logprobs"]).cast(pl.Float64).to_numpy()
    apart = apart[flat["loss_mask"].cast(bool).to_numpy()]
    low, high, wanted = 1.0, 4.0 * factor, factor * _k3(apart)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _k3(middle * apart) < wanted else (low, middle)
    moved = [
        (engine.cast(pl.Float64) + low * (own - engine).cast(pl.Float64)).cast(pl.Float32)
        for engine, own in zip(table["inference_logprobs"], table["trainer_logprobs"], strict=True)
    ]
    return table.with_columns(pl.Series("trainer_logprobs", moved, dtype=pl.List(pl.Float32)))


def _k3(apart: np.ndarray) -> float:
    return float(np.mean(np.expm1(apart) - apart))


def verdicts(table: pl.DataFrame, rng: np.random.Generator) -> Iterator[tuple[float, str, str]]:
    """Yield the factor, the gate and the word of each verdict on one pair of halves."""
    before, after = halves(table, rng)
    baseline = baseline_of(iscope.analyze(before, recipes=["none"]), tracked())
    for factor in FACTORS:
        report = iscope.analyze(widened(after, factor), recipes=["none"])
        chosen = default_gates(report, baseline)
        for one in judge(report, chosen.gates, baseline).gates:
            yield factor, f"{one.figure} {one.rule}", one.word
        other = differing(baseline_of(report, ()), baseline, Terms(prompts=False))
        yield factor, "(baseline refused: mean -log q)", FAIL if other else PASS


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="False alarms and power of the default gates.")
    parser.add_argument("--pairs", type=int, default=100, help="pairs of halves of each dump")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=Path, default=SAMPLE, help="folder of the real dumps")
    parser.add_argument("--each", action="store_true", help="print a table for each dump too")
    options = parser.parse_args()
    every: Counter[tuple[float, str, str]] = Counter()
    for index, (dump, trainer) in enumerate(HEALTHY):
        started = time.perf_counter()
        table, rng = read(options.sample, dump, trainer), np.random.default_rng([options.seed, index])
        found = Counter(verdict for _ in range(options.pairs) for verdict in verdicts(table, rng))
        every += found
        print(f"{dump}/{trainer}: {options.pairs} pairs, {time.perf_counter() - started:.0f} s", flush=True)
        if options.each:
            show(found)
    show(every)


def show(found: Counter[tuple[float, str, str]]) -> None:
    """Print the share of pairs on which each gate fails and warns, by factor."""
    names = list(dict.fromkeys(name for _, name, _ in found))
    heads = "".join(f"{'healthy' if factor == 1 else f'{factor:g}x k3':>16}" for factor in FACTORS)
    print(f"\n{'default gate':<58}{'pairs':>6}{heads}   fails / warns")
    for name in names:
        cells = []
        for factor in FACTORS:
            total = sum(count for (of, gate, _), count in found.items() if (of, gate) == (factor, name))
            shares = [found[factor, name, word] / max(total, 1) for word in (FAIL, WARN)]
            cells.append(f"{shares[0]:>8.1%}{shares[1]:>8.1%}")
        pairs = sum(count for (of, gate, _), count in found.items() if (of, gate) == (1.0, name))
        print(f"{name:<58}{pairs:>6}{''.join(cells)}")


if __name__ == "__main__":
    main()
