"""How often findings are made: on dumps with a fault, on healthy ones, and on the real dumps.

python benchmarks/findings.py [--dumps 200] [--seed 0]
python benchmarks/findings.py --cost DUMP

Healthy dumps are the real healthy ones resampled in blocks: whole groups are drawn with replacement, steps apart, and
get new ids. A finding above information on one of them is a false alarm. Dumps with a fault are the cases of
``tests/findings/cases.py``, each with the share of its kind's that were found.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import iscope  # noqa: E402
from tests.findings.cases import CASES  # noqa: E402

COLUMNS = ["rollout_id", "group_id", "step", "trainer_logprobs", "inference_logprobs", "loss_mask", "advantage"]
SAMPLE = ROOT / "tests" / "data" / "sample"
HEALTHY = (
    ("base", "trainer_fp32_lag0"),
    ("base", "trainer_bf16_lag0"),
    ("train_sync", "trainer_bf16"),
    ("engine_fp16", "trainer_fp32"),
    ("engine_fp32", "trainer_fp32"),
    ("temp07_processed", "trainer_fp32_t07"),
)


def read(dump: str, trainer: str) -> pl.DataFrame:
    """Join the two sides of a real dump into one table."""
    engine = pl.read_parquet(SAMPLE / dump / "vllm.parquet").rename({"logprobs": "inference_logprobs"})
    own = pl.read_parquet(SAMPLE / dump / f"{trainer}.parquet").rename({"logprobs": "trainer_logprobs"})
    return engine.join(own.drop("step"), on="rollout_id")


def resample(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Draw as many groups of each step as it has, with replacement, and give them ids of their own."""
    parts = []
    for (step,), part in sorted(table.group_by(["step"]), key=lambda entry: str(entry[0])):
        groups = part["group_id"].unique(maintain_order=True)
        for draw, group in enumerate(rng.choice(len(groups), len(groups))):
            chosen = part.filter(pl.col("group_id") == groups[int(group)])
            name = pl.lit(f"{step}-{draw}-")
            parts.append(chosen.with_columns(group_id=name + "g", rollout_id=name + pl.col("rollout_id")))
    return without_copies(pl.concat(parts))


def without_copies(table: pl.DataFrame) -> pl.DataFrame:
    """Move the logprobs of both sides by up to 2.4e-4, each rollout's by its own: resampling made the copies."""
    nudge = pl.int_range(pl.len()).cast(pl.Float32).add(1).truediv(-(2**12)) / pl.len()
    sides = ("trainer_logprobs", "inference_logprobs")
    return table.with_columns(pl.col(name).list.eval(pl.element()) + nudge for name in sides)


def above(findings: list[iscope.Finding]) -> list[str]:
    """Codes of the findings above information."""
    return [finding.code for finding in findings if finding.severity != "information"]


def false_alarms(dumps: int, seed: int) -> Iterator[tuple[str, int, Counter[str]]]:
    """Yield for every healthy dump how many resamples of it were looked at, and what was found above information."""
    share = -(-dumps // len(HEALTHY))
    for index, (dump, trainer) in enumerate(HEALTHY):
        table, rng = read(dump, trainer), np.random.default_rng([seed, index])
        count = min(share, dumps - index * share)
        found = Counter(code for _ in range(count) for code in above(iscope.inspect(resample(table, rng)).findings))
        yield f"{dump}/{trainer}", count, found


def real() -> Iterator[tuple[str, list[str]]]:
    """Yield what is found above information on every real dump."""
    for path in sorted(SAMPLE.glob("*/trainer*.parquet")):
        found = iscope.inspect(trainer=path, vllm=path.parent / "vllm.parquet")
        yield f"{path.parent.name}/{path.stem}", above(found.findings)


def sensitivity() -> Iterator[tuple[str, int, int, int, int]]:
    """Yield for every kind: dumps with the fault found, of how many; confusable ones that raised it, of how many."""
    hits: Counter[tuple[str, bool]] = Counter()
    tried: Counter[tuple[str, bool]] = Counter()
    for case in CASES:
        found = {finding.code for finding in case.build().report(**case.options).findings}
        hits[case.code, case.fires] += case.code in found
        tried[case.code, case.fires] += 1
    for code in sorted({code for code, _ in tried}):
        yield code, hits[code, True], tried[code, True], hits[code, False], tried[code, False]


def cost(dump: str) -> tuple[float, float, dict[str, float]]:
    """Return the floor over a dump, wall and CPU seconds, and the CPU seconds that findings add, by part.

    The floor is the median of five; what findings add to the wall time is no more than their CPU time.
    """
    from iscope.analysis import report
    from iscope.analysis.findings.tokens import Tokens
    from iscope.ledger.sample import SampleBuilder

    spent: Counter[str] = Counter()

    def timed(owner: object, name: str, part: str) -> None:
        function = getattr(owner, name)

        def run(*arguments: object) -> object:
            start = time.thread_time()
            result = function(*arguments)
            spent[part] += time.thread_time() - start
            return result

        setattr(owner, name, staticmethod(run) if isinstance(owner, type) and name == "of" else run)

    timed(SampleBuilder, "add", "sample")
    timed(SampleBuilder, "finish", "sample")
    timed(Tokens, "of", "tokens")
    timed(report, "find", "findings")
    iscope.analyze(read("engine_fp32", "trainer_fp32"))  # imports are not to be counted
    spent.clear()
    iscope.analyze(dump)
    walls, cpus = [], []
    for _ in range(5):
        wall, cpu = time.perf_counter(), time.thread_time()
        with pq.ParquetFile(dump) as file:
            for _ in file.iter_batches(batch_size=512, columns=COLUMNS, use_threads=False):
                pass
        walls.append(time.perf_counter() - wall)
        cpus.append(time.thread_time() - cpu)
    return statistics.median(walls), statistics.median(cpus), dict(spent)


def main() -> None:
    """Print the three tables, or the cost over a dump."""
    parser = argparse.ArgumentParser(description="Sensitivity and false alarms of the findings.")
    parser.add_argument("--dumps", type=int, default=200, help="healthy dumps to make")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cost", metavar="DUMP", help="measure what the findings cost over this dump instead")
    options = parser.parse_args()
    if options.cost:
        wall, cpu, spent = cost(options.cost)
        parts, whole = ", ".join(f"{part} {seconds:.3f} s" for part, seconds in spent.items()), sum(spent.values())
        print(f"floor {wall:.3f} s, {cpu:.3f} s CPU; findings {whole / wall:.2f} and {whole / cpu:.2f} of it: {parts}")
        return
    print("kind    found   with the fault   raised   confusable")
    for code, hit, positives, raised, negatives in sensitivity():
        print(f"{code}   {hit:5} of {positives:<14} {raised:6} of {negatives}")
    print("\nhealthy dump, resampled                dumps   above information")
    for name, count, found in false_alarms(options.dumps, options.seed):
        print(f"{name:38} {count:5}   {dict(found) or 'nothing'}")
    print("\nreal dump                              above information")
    for name, codes in real():
        print(f"{name:38} {', '.join(codes) or 'nothing'}")


if __name__ == "__main__":
    main()
