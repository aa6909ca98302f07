"""Dumps of several files and row groups, with most of what a dump can hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

SIDES = ("trainer_logprobs", "inference_logprobs", "current_logprobs")


def frame(rollouts: int = 240, tokens: int = 40, seed: int = 0, *, varied: bool = True) -> pl.DataFrame:
    """Rollouts of about so many tokens; varied: some empty, some unusable, some that cannot be read."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(0 if varied else 1, 2 * tokens, rollouts)
    inference = [-draw.exponential(1.0, n).astype(np.float32) for n in lengths]
    trainer = [np.minimum(q + draw.normal(0, 0.1, q.size), 0).astype(np.float32) for q in inference]
    current = [np.minimum(p + draw.normal(0, 0.02, p.size), 0).astype(np.float32) for p in trainer]
    rows = np.arange(rollouts)
    found = pl.DataFrame(
        {
            "rollout_id": [f"{seed}-{row}" for row in rows],
            "group_id": [f"{seed}-{row // 4}" for row in rows],
            "step": rows * 4 // rollouts,
            "policy_version": rows * 4 // rollouts - draw.integers(0, 2, rollouts),
            "trainer_version": rows * 4 // rollouts,
            "advantage": draw.choice([-1.0, -0.5, 0.0, 0.5, 1.5], rollouts),
            "reward": draw.normal(size=rollouts),
            "env": draw.choice(["math", "code", "games"], rollouts),
            "loss_mask": [draw.random(n) < 0.9 for n in lengths],
            "trainer_logprobs": trainer,
            "inference_logprobs": inference,
            "current_logprobs": current,
            "importance_ratio": [np.exp(-np.abs(q)) for q in inference],
        },
        schema_overrides=dict.fromkeys(SIDES, pl.List(pl.Float32)),
    )
    return _spoilt(found) if varied else found


def _spoilt(found: pl.DataFrame) -> pl.DataFrame:
    row = pl.int_range(pl.len())
    first = pl.col("trainer_logprobs").list.slice(0, 1)
    unusable = pl.concat_list(
        first.list.eval(pl.lit(float("nan"), pl.Float32)), pl.col("trainer_logprobs").list.slice(1)
    )
    return found.with_columns(
        trainer_logprobs=pl.when(row % 17 == 3).then(unusable).otherwise("trainer_logprobs"),
        inference_logprobs=pl.when(row % 29 == 5).then(None).otherwise("inference_logprobs"),
    )


def write(folder: Path, frames: int = 3, group_rows: int = 20, **shape: int) -> Path:
    """Write several files of several row groups into a new folder."""
    folder.mkdir()
    for index in range(frames):
        frame(seed=index, **shape).write_parquet(folder / f"step_{index}.parquet", row_group_size=group_rows)
    return folder
