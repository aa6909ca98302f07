"""How often default gates fail on two halves of one healthy run, and how often they catch a wider gap.

    python -m benchmarks.gates [--pairs 100] [--seed 0] [--sample DIR]

The groups of every healthy dump are split at random into two halves, steps apart, and one half is the baseline of the
other: other prompts and other samples of the same run. A gate that fails there is a false alarm. Then the log-ratios of
the other half are scaled until its k3 is 1.5, 2 and 5 times as large: inference + s (trainer - inference), one s for
all tokens. Verdicts are counted over all pairs to which a gate applied; ``(any gate)`` is the check as a whole.

Whether the baseline would be refused for the sampler's mean -log q is told on other halves: of the rollouts of each
group, so that both have the same prompts, as a baseline and what is held against it have.
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
from iscope.gates import Baseline, baseline_of  # noqa: E402
from iscope.gates.comparable import Terms, differing  # noqa: E402
from iscope.gates.defaults import default_gates, tracked  # noqa: E402
from iscope.gates.judge import judge  # noqa: E402
from iscope.model.check import FAIL, PASS, WARN  # noqa: E402

SAMPLE = ROOT / "tests" / "data" / "sample"
# Dumps whose halves have 24 to 30 groups, and such whose halves have 6, too few for intervals.
LARGE = (
    ("base", "trainer_fp32_lag0"),
    ("base", "trainer_bf16_lag0"),
    ("train_sync", "trainer_bf16"),
)
SMALL = (
    ("engine_fp16", "trainer_fp32"),
    ("engine_fp32", "trainer_fp32"),
    ("temp07_processed", "trainer_fp32_t07"),
)
ANY, REFUSED = "(any gate)", "(baseline refused: mean -log q of the same prompts)"
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


def of_each_group(table: pl.DataFrame, rng: np.random.Generator) -> Halves:
    """Split the rollouts of each group at random."""
    drawn = table.with_columns(draw=pl.Series(rng.random(table.height)))
    first = pl.col("draw").rank("ordinal").over("group_id") % 2 == 1
    return drawn.filter(first).drop("draw"), drawn.filter(~first).drop("draw")


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
    baseline = measured(before)
    for factor in FACTORS:
        report = iscope.analyze(widened(after, factor), recipes=["none"])
        result = judge(report, default_gates(report, baseline).gates, baseline)
        for one in result.gates:
            yield factor, f"{one.figure} {one.rule}", one.word
        yield factor, ANY, result.word
    first, second = map(measured, of_each_group(table, rng))
    yield 1.0, REFUSED, FAIL if differing(second, first, Terms()) else PASS


def measured(table: pl.DataFrame) -> Baseline:
    """Return the baseline that a dump makes."""
    return baseline_of(iscope.analyze(table, recipes=["none"]), tracked())


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="False alarms and power of the default gates.")
    parser.add_argument("--pairs", type=int, default=100, help="pairs of halves of each dump")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=Path, default=SAMPLE, help="folder of the real dumps")
    options = parser.parse_args()
    for dumps, about in ((LARGE, "halves of 24 to 30 groups"), (SMALL, "halves of 6 groups")):
        found: Counter[tuple[float, str, str]] = Counter()
        for index, (dump, trainer) in enumerate(dumps):
            started = time.perf_counter()
            table, rng = read(options.sample, dump, trainer), np.random.default_rng([options.seed, index, len(about)])
            found.update(verdict for _ in range(options.pairs) for verdict in verdicts(table, rng))
            print(f"{dump}/{trainer}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
        show(found, f"{about}; {len(dumps)} dumps")


def show(found: Counter[tuple[float, str, str]], about: str) -> None:
    """Print the share of pairs on which each gate fails and warns, by factor."""
    names = sorted({name for _, name, _ in found}, key=lambda name: (name.startswith("("), name))
    heads = "".join(f"{'healthy' if factor == 1 else f'k3 x {factor:g}':>14}" for factor in FACTORS)
    print(f"{about:<54}{'pairs':>6}{heads}")
    print(f"{'':<60}{'fails  warns'.rjust(14) * len(FACTORS)}")
    for name in names:
        cells, pairs = "", 0
        for factor in FACTORS:
            counts = [found[factor, name, word] for word in (FAIL, WARN, PASS)]
            total = sum(counts)
            pairs = max(pairs, total)
            shares = [f"{count / total:.1%}" if total else "" for count in counts[:2]]
            cells += f"{shares[0]:>7}{shares[1]:>7}"
        print(f"{name:<54}{pairs:>6}{cells}")
    print()


if __name__ == "__main__":
    main()
