"""Join the two sides of ``train_async/`` into one dump with the canonical columns.

Run ``python sample_data/make.py``: it reads ``train_async/{trainer_fp32,vllm}.parquet`` beside this file and
writes ``train_async.parquet`` there, one row per rollout.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent


def join(trainer: pa.Table, vllm: pa.Table) -> pa.Table:
    """Return one row per rollout of ``vllm``, in its order, with the trainer's columns beside vLLM's.

    Raises:
        ValueError: when a rollout is missing on one side or the token ids differ.
    """
    rows = pc.index_in(vllm["rollout_id"], value_set=trainer["rollout_id"])
    if rows.null_count or trainer.num_rows != vllm.num_rows:
        raise ValueError("the two sides do not hold the same rollouts")
    trainer = trainer.take(rows)
    if not trainer["token_ids"].equals(vllm["token_ids"]):
        raise ValueError("the two sides do not hold the same token ids")
    return pa.table(
        {
            "rollout_id": vllm["rollout_id"],
            "group_id": vllm["group_id"],
            "step": trainer["step"],
            "policy_version": vllm["policy_version"],
            "trainer_version": trainer["trainer_version"],
            "token_ids": vllm["token_ids"],
            "trainer_logprobs": trainer["logprobs"],
            "inference_logprobs": vllm["logprobs"],
            "loss_mask": trainer["loss_mask"].cast(pa.list_(pa.bool_())),
            "advantage": trainer["advantage"],
            "reward": trainer["reward"],
            "temperature": vllm["temperature"],
            "top_p": vllm["top_p"],
            "finish_reason": vllm["finish_reason"],
        }
    )


def main() -> None:
    """Write ``train_async.parquet``."""
    sides = (pq.read_table(HERE / "train_async" / name) for name in ("trainer_fp32.parquet", "vllm.parquet"))
    pq.write_table(join(*sides), HERE / "train_async.parquet", compression="zstd")


if __name__ == "__main__":
    main()
