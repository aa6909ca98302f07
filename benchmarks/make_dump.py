"""Write a synthetic dump of any size, row group by row group, with memory bounded by one row group.

python benchmarks/make_dump.py --tokens 30_000_000 --out dump.parquet

Lengths are log-normal around 850 tokens. Most log-ratios lie within 0.05 nats, and a heavy tail puts about 0.6% of the
ratios outside [1/2, 2], as a few optimizer steps of lag do.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MEAN_LENGTH = 850
LENGTH_SIGMA = 0.8
GROUP_SIZE = 8
STEPS = 16
CORE_SD = 0.03
TAIL_SHARE = 0.0187
TAIL_SD = 0.9

SCHEMA = pa.schema(
    {
        "rollout_id": pa.string(),
        "group_id": pa.string(),
        "step": pa.int32(),
        "trainer_logprobs": pa.list_(pa.float32()),
        "inference_logprobs": pa.list_(pa.float32()),
        "loss_mask": pa.list_(pa.bool_()),
        "advantage": pa.float32(),
    }
)


def lengths(rng: np.random.Generator, tokens: int) -> np.ndarray:
    """Return int64 rollout lengths that sum to ``tokens``."""
    mean_log = np.log(MEAN_LENGTH) - LENGTH_SIGMA**2 / 2
    drawn = np.maximum(rng.lognormal(mean_log, LENGTH_SIGMA, tokens // MEAN_LENGTH * 2 + 64).astype(np.int64), 1)
    ends = drawn.cumsum()
    rows = int(np.searchsorted(ends, tokens)) + 1
    drawn[rows - 1] -= ends[rows - 1] - tokens
    return drawn[:rows]


def logprobs(rng: np.random.Generator, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Return float32 trainer and inference logprobs [tokens], nats; the mismatch shrinks as the token gets certain."""
    inference = -rng.gamma(0.45, 3.0, tokens).astype(np.float32)
    log_ratio = rng.standard_normal(tokens, np.float32) * np.float32(CORE_SD) * -np.expm1(inference)
    tail = rng.random(tokens, np.float32) < TAIL_SHARE
    log_ratio[tail] = rng.standard_normal(int(tail.sum()), np.float32) * np.float32(TAIL_SD)
    return np.minimum(inference + log_ratio, np.float32(0)), inference


def group_advantages(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Return float32 [rows] advantages of 0/1 rewards, normalised within groups."""
    groups = -(-rows // GROUP_SIZE)
    rewards = (rng.random((groups, GROUP_SIZE)) < rng.random((groups, 1))).astype(np.float32)
    centred = rewards - rewards.mean(1, keepdims=True)
    return (centred / (rewards.std(1, keepdims=True) + 1e-4)).reshape(-1)[:rows].astype(np.float32)


def ragged(values: np.ndarray, offsets: np.ndarray) -> pa.ListArray:
    """Return a list array whose row i holds values[offsets[i]:offsets[i + 1]]."""
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values))


def row_groups(rng: np.random.Generator, tokens: int, rows_each: int) -> Iterator[pa.Table]:
    """Yield tables of at most ``rows_each`` rollouts with ``tokens`` tokens in all."""
    drawn = lengths(rng, tokens)
    advantages = group_advantages(rng, len(drawn))
    steps = np.arange(len(drawn)) * STEPS // len(drawn)
    for start in range(0, len(drawn), rows_each):
        rows = range(start, min(start + rows_each, len(drawn)))
        offsets = np.concatenate([[0], drawn[rows.start : rows.stop].cumsum()])
        trainer, inference = logprobs(rng, int(offsets[-1]))
        columns = [
            pa.array([f"r{row:09d}" for row in rows]),
            pa.array([f"g{row // GROUP_SIZE:08d}" for row in rows]),
            pa.array(steps[rows.start : rows.stop], pa.int32()),
            ragged(trainer, offsets),
            ragged(inference, offsets),
            ragged(rng.random(len(trainer), np.float32) >= 0.02, offsets),
            pa.array(advantages[rows.start : rows.stop]),
        ]
        yield pa.Table.from_arrays(columns, schema=SCHEMA)


def make_dump(path: Path, tokens: int, rows_each: int, seed: int) -> None:
    """Write the dump to ``path`` (snappy), replacing it only once it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with pq.ParquetWriter(part, SCHEMA, compression="snappy") as writer:
        for table in row_groups(np.random.default_rng(seed), tokens, rows_each):
            writer.write_table(table, row_group_size=rows_each)
    part.replace(path)


def main() -> None:
    """Parse the command line and write the dump."""
    parser = argparse.ArgumentParser(description="Write a synthetic dump.")
    parser.add_argument("--tokens", type=int, default=30_000_000)
    parser.add_argument("--row-group-size", type=int, default=2048, help="rollouts in a row group")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    make_dump(options.out, options.tokens, options.row_group_size, options.seed)


if __name__ == "__main__":
    main()
