"""Write a synthetic dump of any size, row group by row group, with memory bounded by one row group.

python benchmarks/make_dump.py --tokens 30_000_000 --out dump.parquet

Lengths are log-normal around 850 tokens. Most log-ratios lie within 0.05 nats, and a heavy tail puts about 0.6% of the
ratios outside [1/2, 2], as a few optimizer steps of lag do. The options make the extreme ones: every token in the tail,
rollouts of one length, current logprobs and token ids beside the others, many files.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LENGTH_SIGMA = 0.8
GROUP_SIZE = 8
STEPS = 16
CORE_SD = 0.03
TAIL_SD = 0.9
VOCABULARY = 150_000

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


@dataclass(frozen=True)
class Shape:
    """What a dump looks like.

    Attributes:
        tokens: tokens in all.
        row_group_size: rollouts in a row group, at most.
        mean_length: tokens of a rollout.
        one_length: every rollout has the mean length.
        tail_share: share of the tokens with a log-ratio of 0.9 nats, standard deviation.
        current: whether there are current logprobs.
        token_ids: whether there are token ids.
        files: how many files to spread the rollouts over; with more than one the output is a folder.
        seed: of the random numbers.
    """

    tokens: int = 30_000_000
    row_group_size: int = 2048
    mean_length: int = 850
    one_length: bool = False
    tail_share: float = 0.0187
    current: bool = False
    token_ids: bool = False
    files: int = 1
    seed: int = 0

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        schema = SCHEMA
        if self.current:
            schema = schema.append(pa.field("current_logprobs", pa.list_(pa.float32())))
        if self.token_ids:
            schema = schema.append(pa.field("token_ids", pa.list_(pa.int32())))
        return schema


def lengths(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    """Return int64 rollout lengths that sum to the dump's tokens."""
    mean_log = np.log(shape.mean_length) - LENGTH_SIGMA**2 / 2
    count = shape.tokens // shape.mean_length * 2 + 64
    if shape.one_length:
        drawn = np.full(count, shape.mean_length)
    else:
        drawn = np.maximum(rng.lognormal(mean_log, LENGTH_SIGMA, count).astype(np.int64), 1)
    ends = drawn.cumsum()
    rows = int(np.searchsorted(ends, shape.tokens)) + 1
    drawn[rows - 1] -= ends[rows - 1] - shape.tokens
    return drawn[:rows]


def inference_logprobs(rng: np.random.Generator, tokens: int) -> np.ndarray:
    """Return float32 [tokens], nats."""
    return -rng.gamma(0.45, 3.0, tokens).astype(np.float32)


def moved(rng: np.random.Generator, inference: np.ndarray, tail_share: float) -> np.ndarray:
    """Return another policy's float32 logprobs, nats; the mismatch shrinks as the token gets certain."""
    tokens = len(inference)
    log_ratio = rng.standard_normal(tokens, np.float32) * np.float32(CORE_SD) * -np.expm1(inference)
    tail = rng.random(tokens, np.float32) < tail_share
    log_ratio[tail] = rng.standard_normal(int(tail.sum()), np.float32) * np.float32(TAIL_SD)
    return np.minimum(inference + log_ratio, np.float32(0))


def group_advantages(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Return float32 [rows] advantages of 0/1 rewards, normalised within groups."""
    groups = -(-rows // GROUP_SIZE)
    rewards = (rng.random((groups, GROUP_SIZE)) < rng.random((groups, 1))).astype(np.float32)
    centred = rewards - rewards.mean(1, keepdims=True)
    return (centred / (rewards.std(1, keepdims=True) + 1e-4)).reshape(-1)[:rows].astype(np.float32)


def ragged(values: np.ndarray, offsets: np.ndarray) -> pa.ListArray:
    """Return a list array whose row i holds values[offsets[i]:offsets[i + 1]]."""
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values))


def row_groups(rng: np.random.Generator, shape: Shape) -> Iterator[pa.Table]:
    """Yield tables of at most a row group's rollouts."""
    drawn = lengths(rng, shape)
    advantages = group_advantages(rng, len(drawn))
    steps = np.arange(len(drawn)) * STEPS // len(drawn)
    for start in range(0, len(drawn), shape.row_group_size):
        rows = range(start, min(start + shape.row_group_size, len(drawn)))
        offsets = np.concatenate([[0], drawn[rows.start : rows.stop].cumsum()])
        tokens = int(offsets[-1])
        inference = inference_logprobs(rng, tokens)
        trainer = moved(rng, inference, shape.tail_share)
        columns = {
            "rollout_id": pa.array([f"r{row:09d}" for row in rows]),
            "group_id": pa.array([f"g{row // GROUP_SIZE:08d}" for row in rows]),
            "step": pa.array(steps[rows.start : rows.stop], pa.int32()),
            "trainer_logprobs": ragged(trainer, offsets),
            "inference_logprobs": ragged(inference, offsets),
            "loss_mask": ragged(rng.random(tokens, np.float32) >= 0.02, offsets),
            "advantage": pa.array(advantages[rows.start : rows.stop]),
        }
        if shape.current:
            columns["current_logprobs"] = ragged(moved(rng, trainer, shape.tail_share), offsets)
        if shape.token_ids:
            columns["token_ids"] = ragged(rng.integers(0, VOCABULARY, tokens, np.int32), offsets)
        yield pa.table(columns, schema=shape.schema)


def make_dump(path: Path, shape: Shape) -> None:
    """Write the dump to ``path`` (snappy), replacing it only once it is whole."""
    tables = row_groups(np.random.default_rng(shape.seed), shape)
    if shape.files > 1:
        _write_folder(path, tables, shape)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with pq.ParquetWriter(part, shape.schema, compression="snappy") as writer:
        for table in tables:
            writer.write_table(table, row_group_size=shape.row_group_size)
    part.replace(path)


def _write_folder(folder: Path, tables: Iterator[pa.Table], shape: Shape) -> None:
    folder.mkdir(parents=True)
    whole = pa.concat_tables(tables)
    edges = np.linspace(0, whole.num_rows, shape.files + 1).astype(int)
    for index, (first, last) in enumerate(pairwise(edges)):
        part = whole.slice(first, last - first)
        pq.write_table(part, folder / f"{index:05d}.parquet", compression="snappy", row_group_size=shape.row_group_size)


def main() -> None:
    """Parse the command line and write the dump."""
    plain = Shape()
    parser = argparse.ArgumentParser(description="Write a synthetic dump.")
    parser.add_argument("--tokens", type=int, default=plain.tokens)
    parser.add_argument("--row-group-size", type=int, default=plain.row_group_size, help="rollouts in a row group")
    parser.add_argument("--mean-length", type=int, default=plain.mean_length, help="tokens of a rollout")
    parser.add_argument("--one-length", action="store_true", help="give every rollout the mean length")
    parser.add_argument("--tail-share", type=float, default=plain.tail_share, help="share of tokens in the heavy tail")
    parser.add_argument("--current", action="store_true", help="add current logprobs")
    parser.add_argument("--token-ids", action="store_true", help="add token ids")
    parser.add_argument("--files", type=int, default=plain.files, help="more than one: write a folder of files")
    parser.add_argument("--seed", type=int, default=plain.seed)
    parser.add_argument("--out", type=Path, required=True)
    options = vars(parser.parse_args())
    make_dump(options.pop("out"), Shape(**options))


if __name__ == "__main__":
    main()
