"""The same rollouts in the layout of each framework, written out from the frameworks' documented formats."""

from __future__ import annotations

import io
import itertools
import json
import pickle
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

STEP = 7
PAD_ID = 0


@dataclass(frozen=True)
class Rollout:
    prompt: list[int]
    ids: list[int]
    trainer: list[float]
    inference: list[float]
    ref: list[float]
    mask: list[int]
    advantage: float
    reward: float

    @property
    def length(self) -> int:
        return len(self.ids)


def rollouts(groups: int = 3, size: int = 4, seed: int = 0) -> list[Rollout]:
    """Rollouts in groups of one prompt; float32 values, a masked span in some, one without tokens."""
    rng = np.random.default_rng(seed)
    made = []
    for group in range(groups):
        prompt = [100 + group, 7, 8 + group][: 2 + group % 2]
        for member in range(size):
            length = 0 if (group, member) == (1, 2) else int(rng.integers(1, 9))
            inference = (-rng.exponential(1.0, length)).astype(np.float32)
            trainer = (inference + rng.normal(0, 0.2, length)).astype(np.float32)
            ref = np.minimum(inference + rng.normal(0, 0.3, length), 0.0).astype(np.float32)
            mask = np.ones(length, np.int64)
            if member == 1 and length > 2:
                mask[1] = 0
            made.append(
                Rollout(
                    prompt=prompt,
                    ids=rng.integers(1, 1000, length).tolist(),
                    trainer=trainer.astype(float).tolist(),
                    inference=inference.astype(float).tolist(),
                    ref=ref.astype(float).tolist(),
                    mask=mask.tolist(),
                    advantage=float(np.float32([-1.5, 0.5, 0.0, 1.0][member])),
                    reward=float(member),
                )
            )
    return made


def canonical(rows: list[Rollout]) -> pa.Table:
    def lists(name: str, kind: pa.DataType) -> pa.Array:
        return pa.array([getattr(row, name) for row in rows], pa.list_(kind))

    return pa.table(
        {
            "trainer_logprobs": lists("trainer", pa.float32()),
            "inference_logprobs": lists("inference", pa.float32()),
            "loss_mask": lists("mask", pa.int8()),
            "advantage": pa.array([row.advantage for row in rows]),
            "group_id": [str(tuple(row.prompt)) for row in rows],
            "reward": [row.reward for row in rows],
            "step": [STEP] * len(rows),
        }
    )


def write_canonical_jsonl(rows: list[Rollout], folder: Path) -> Path:
    return lines(folder / "dump.jsonl", canonical(rows).to_pylist())


def write_framework_jsonl(rows: list[Rollout], folder: Path) -> Path:
    names = {"trainer_logprobs": "old_log_probs", "inference_logprobs": "rollout_log_probs", "group_id": "uid"}
    records = canonical(rows).to_pylist()
    return lines(folder / "dump.ndjson", [{names.get(k, k): v for k, v in record.items()} for record in records])


def write_long(rows: list[Rollout], folder: Path) -> Path:
    path = folder / "tokens.parquet"
    pq.write_table(long_table(rows), path, row_group_size=5)
    return path


def long_table(rows: list[Rollout]) -> pa.Table:
    """One row per token: rollouts without a token cannot be told."""
    records = [
        {
            "rollout_id": index,
            "position": t,
            "trainer_logprob": row.trainer[t],
            "inference_logprob": row.inference[t],
            "loss_mask": row.mask[t],
            "advantage": row.advantage,
            "group_id": str(tuple(row.prompt)),
            "reward": row.reward,
            "step": STEP,
        }
        for index, row in enumerate(rows)
        for t in range(row.length)
    ]
    return pa.Table.from_pylist(records)


def write_long_jsonl(rows: list[Rollout], folder: Path) -> Path:
    return lines(folder / "tokens.jsonl", long_table(rows).to_pylist())


def write_prime_rl(rows: list[Rollout], folder: Path) -> Path:
    """Packed order, two ranks, a STABLE marker; whole samples with the prompt; non-finite values as null."""
    home = folder / "token_exports"
    step = home / f"step_{STEP}"
    step.mkdir(parents=True)
    for rank in (0, 1):
        records = []
        for index, row in enumerate(rows[rank::2]):
            if not any(row.mask):  # samples without a loss token are not exported
                continue
            n = len(row.prompt)
            whole = n + row.length
            ratio = np.exp(np.subtract(row.trainer, row.inference)).tolist()
            records.append(
                {
                    "schema_version": 1,
                    "step": STEP,
                    "rank": rank,
                    "micro_step": index // 2,
                    "micro_sequence_idx": index % 2,
                    "export_sequence_idx": index,
                    "env_name": "math",
                    "token_ids": row.prompt + row.ids,
                    "position_ids": list(range(whole)),
                    "loss_mask": [False] * n + [bool(x) for x in row.mask],
                    "advantages": [0.0] * n + [row.advantage] * row.length,
                    "inference_logprobs": [0.0] * n + row.inference,
                    "trainer_logprobs": [0.0] + [-2.5] * (n - 1) + row.trainer,
                    "entropy": [0.5] * whole,
                    "mismatch_kl": [0.0] * whole,
                    "log_importance_ratio": [0.0] * whole,
                    "importance_ratio": [1.0] * n + ratio,
                    "prob_delta": [0.0] * whole,
                    "is_masked": [False] * whole,
                    "is_masked_high": None,
                    "is_masked_low": None,
                    "rl_weights": None,
                }
            )
        lines(step / f"rank_{rank}.jsonl", records)
    (step / "STABLE").touch()
    return home


def write_nemo_rl(rows: list[Rollout], folder: Path) -> Path:
    """Every value in a list of one element, padded to the batch's longest sample, and NaN written as NaN."""
    width = -(-max(len(row.prompt) + row.length for row in rows) // 4) * 4
    records = []
    for index, row in enumerate(rows):
        n = len(row.prompt)
        pad = width - n - row.length

        def padded(prompt: list, values: list, fill: object, pad: int = pad) -> list:
            return [[*prompt, *values, *[fill] * pad]]

        records.append(
            {
                "content": [["some text", "more"]],
                "rewards": [row.reward],
                "input_lengths": [n + row.length],
                "token_ids": padded(row.prompt, row.ids, PAD_ID),
                "token_loss_mask": padded([0] * n, row.mask, 0),
                "sample_loss_mask": [1.0],
                "advantages": padded([row.advantage] * n, [row.advantage] * row.length, row.advantage),
                "generation_logprobs": padded([0.0] * n, row.inference, 0.0),
                "prev_logprobs": padded([0.0] + [-2.5] * (n - 1), row.trainer, float("nan")),
                "idx": index,
            }
        )
    home = folder / "exp_001"
    home.mkdir()
    lines(home / f"val_data_step{STEP}.jsonl", [{"content": "x", "rewards": 1.0}])
    lines(home / f"train_data_step{STEP}.jsonl", records)
    return home


def write_slime(rows: list[Rollout], folder: Path) -> Path:
    """Format version 2: one dictionary per sample, the response alone in every column but the tokens."""
    samples = [
        {
            "data_parallel_rank": index % 2,
            "sample_index": index,
            "rollout_position": index,
            "tokens": torch.tensor(row.prompt + row.ids),
            "response_lengths": row.length,
            "total_lengths": len(row.prompt) + row.length,
            "loss_masks": torch.tensor(row.mask, dtype=torch.int32),
            "rewards": row.advantage,
            "truncated": 0,
            "rollout_log_probs": torch.tensor(row.inference),
            "log_probs": torch.tensor(row.trainer),
            "ref_log_probs": None,
            "advantages": torch.full((row.length,), row.advantage),
            "returns": torch.full((row.length,), row.advantage),
        }
        for index, row in enumerate(rows)
    ]
    content = {
        "format_version": 2,
        "rollout_id": STEP,
        "rank": 0,
        "samples": samples,
        "dp_shards": [{"rank": 0, "sample_indices": list(range(len(rows)))}],
        "raw_reward": [row.reward for row in rows],
    }
    home = folder / "details"
    (home / "train_data").mkdir(parents=True)
    (home / "rollout_data").mkdir()
    torch.save(content, home / "train_data" / f"{STEP}.pt")
    torch.save(slime_rollout(rows), home / "rollout_data" / f"{STEP}.pt")
    torch.save(slime_rollout(rows), home / "rollout_data" / f"eval_{STEP}.pt")
    return home


def slime_rollout(rows: list[Rollout]) -> dict:
    samples = [
        {
            "group_index": index // 4,
            "index": index,
            "rollout_id": None,
            "prompt": "what is",
            "tokens": row.prompt + row.ids,
            "response": "text",
            "response_length": row.length,
            "reward": row.reward,
            "loss_mask": row.mask if 0 in row.mask else None,
            "rollout_log_probs": row.inference,
            "weight_versions": ["3", "4"],
            "remove_sample": False,
            "status": "completed",
            "metadata": {"a": [1, {"b": None}]},
        }
        for index, row in enumerate(rows)
    ]
    return {"rollout_id": STEP, "samples": samples}


def write_miles(rows: list[Rollout], folder: Path) -> Path:
    """One file per data-parallel rank; rewards are normalised, raw rewards those of the whole batch."""
    home = folder / "train_data"
    home.mkdir()
    for rank in (0, 1):
        own = rows[rank::2]
        data = {
            "tokens": [torch.tensor(row.prompt + row.ids) for row in own],
            "response_lengths": [row.length for row in own],
            "total_lengths": [len(row.prompt) + row.length for row in own],
            "loss_masks": [torch.tensor(row.mask, dtype=torch.int32) for row in own],
            "rewards": [row.reward for row in own],
            "raw_reward": [row.reward for row in rows],
            "sample_indices": list(range(rank, len(rows), 2)),
            "rollout_log_probs": [torch.tensor(row.inference) for row in own],
            "log_probs": [torch.tensor(row.trainer) for row in own],
            "advantages": [torch.full((row.length,), row.advantage) for row in own],
        }
        content = {"rollout_id": STEP, "rank": rank, "rollout_data": data, "cp_rank": 0, "cp_size": 1}
        torch.save(content | {"qkv_format": "thd"}, home / f"{STEP}_{rank}.pt")
    return home


def right_padded(rows: list[Rollout], name: str, dtype: torch.dtype, extra: int = 2) -> torch.Tensor:
    width = max(row.length for row in rows) + extra
    return torch.tensor([[*getattr(row, name), *[0] * (width - row.length)] for row in rows], dtype=dtype)


def write_verl(rows: list[Rollout], folder: Path) -> Path:
    """``dict(batch.batch)`` with ``uid``: right-padded, both policies 0.0 there."""
    responses = right_padded(rows, "ids", torch.int64)
    prompts = torch.tensor([[0, *row.prompt][-3:] if len(row.prompt) < 3 else row.prompt for row in rows])
    here = torch.arange(responses.shape[1])[None] < torch.tensor([[row.length] for row in rows])
    content = {
        "old_log_probs": right_padded(rows, "trainer", torch.float32),
        "rollout_log_probs": right_padded(rows, "inference", torch.float32),
        "response_mask": right_padded(rows, "mask", torch.int64),
        "responses": responses,
        "prompts": prompts,
        "attention_mask": torch.cat([torch.ones_like(prompts), here.long()], dim=1),
        "advantages": torch.tensor([[row.advantage] for row in rows]) * here,
        "token_level_scores": torch.tensor([[row.reward] for row in rows]) * (torch.arange(here.shape[1]) == 0),
        "uid": [str(tuple(row.prompt)) for row in rows],
    }
    path = folder / f"step_{STEP}.pt"
    torch.save(content, path)
    return path


def write_trl(rows: list[Rollout], folder: Path) -> Path:
    """What ``_generate_and_score_completions`` returns, with tool tokens in ``tool_mask``."""
    here = right_padded(rows, "ids", torch.int64) > 0
    content = {
        "prompt_ids": torch.tensor([[0, *row.prompt][-3:] for row in rows]),
        "prompt_mask": torch.tensor([[0, *[1] * len(row.prompt)][-3:] for row in rows]),
        "completion_ids": right_padded(rows, "ids", torch.int64),
        "completion_mask": here.long(),
        "tool_mask": right_padded(rows, "mask", torch.int64),
        "old_per_token_logps": right_padded(rows, "trainer", torch.float32),
        "sampling_per_token_logps": right_padded(rows, "inference", torch.float32),
        "advantages": torch.tensor([row.advantage for row in rows]),
        "num_items_in_batch": torch.tensor(9),
    }
    path = folder / f"step_{STEP}.pt"
    torch.save(content, path)
    return path


def boundaries(rows: list[Rollout]) -> list[tuple[int, int]]:
    edges = [row for row in range(len(rows) + 1) if row in (0, len(rows)) or rows[row].prompt != rows[row - 1].prompt]
    return list(itertools.pairwise(edges))


def skyrl_state(rows: list[Rollout]) -> dict:
    """The state that SkyRL's batch reduces to: right-aligned, the prompt's logprobs left of the response."""
    width = max(row.length for row in rows) + 2
    padded = [*rows, rows[0]]  # the batch is padded with copies of its first row that do not train

    def right(values: list[list], fill: float, dtype: type) -> dict:
        array = np.array([[*[fill] * (width - len(value)), *value] for value in values], dtype)
        return {"format": "numpy", "data": array.tobytes(), "shape": array.shape, "dtype": str(array.dtype)}

    base = torch.tensor([[*[-1.0] * (width - row.length), *row.ref] for row in padded]).to(torch.bfloat16)
    buffer = io.BytesIO()
    torch.save(base, buffer)
    sequences = [[*row.prompt, *row.ids] for row in padded]
    whole = max(width, max(map(len, sequences)))
    return {
        "batch_dict": {
            "sequences": {
                "format": "numpy",
                "data": np.array([[*[0] * (whole - len(s)), *s] for s in sequences], np.int64).tobytes(),
                "shape": (len(padded), whole),
                "dtype": "int64",
            },
            "response_mask": right([[1] * row.length for row in padded], 0, np.int64),
            "loss_mask": right([*[row.mask for row in rows], [0] * rows[0].length], 0, np.float32),
            "rollout_logprobs": right([row.inference for row in padded], 0.0, np.float32),
            "action_log_probs": right([row.trainer for row in padded], -3.5, np.float32),
            "base_action_log_probs": {"format": "torch", "data": buffer.getvalue()},
            "advantages": right([[row.advantage] * row.length for row in padded], 0.0, np.float32),
            "values": None,
            "pixel_values": {"format": "tensor_list", "items": []},
            "rollout_expert_indices": {"format": "numpy", "data": b"12", "shape": (1,), "dtype": "uint16"},
        },
        "batch_size": len(padded),
        "device": torch.device("cpu"),
        "metadata": {
            "pad_size": 1,
            "response_length": width,
            "policy_prompt_boundaries": boundaries(rows),
            "metrics": {"avg": np.float64(0.5)},
        },
    }


def write_skyrl(rows: list[Rollout], folder: Path) -> Path:
    """A pickle whose reduction names SkyRL's own function and class, which are stood in for while it is written."""
    name = "skyrl.backends.skyrl_train.training_batch"
    parts = name.split(".")
    modules = {".".join(parts[: i + 1]): types.ModuleType(".".join(parts[: i + 1])) for i in range(len(parts))}
    home = modules[name]

    def _rebuild_tensor_batch(cls, state):
        raise AssertionError("the framework's code must not run")

    class TrainingInputBatch:
        def __reduce__(self):
            return home._rebuild_tensor_batch, (TrainingInputBatch, skyrl_state(rows))

    for thing in (_rebuild_tensor_batch, TrainingInputBatch):
        thing.__module__, thing.__qualname__ = name, thing.__name__
        setattr(home, thing.__name__, thing)
    path = folder / f"global_step_{STEP}_training_input.pkl"
    sys.modules.update(modules)
    try:
        path.write_bytes(pickle.dumps(TrainingInputBatch()))
    finally:
        for module in modules:
            del sys.modules[module]
    return path


def write_vllm_outputs(rows: list[Rollout], folder: Path) -> Path:
    """vLLM's request outputs: top-2 maps per position, in which the sampled token is not always the first."""
    records = []
    for first in range(0, len(rows), 4):
        outputs = []
        for index, row in enumerate(rows[first : first + 4]):
            entries = []
            for t, (token, logprob) in enumerate(zip(row.ids, row.inference, strict=True)):
                own = {str(token): {"logprob": logprob, "rank": 1 + t % 2, "decoded_token": "x"}}
                other = {str(token + 1): {"logprob": -0.01, "rank": 2 - t % 2, "decoded_token": "y"}}
                entries.append(other | own if t % 2 else own | other)
            outputs.append({"index": index, "token_ids": row.ids, "logprobs": entries, "finish_reason": "stop"})
        records.append(
            {"request_id": f"q{first // 4}", "prompt_token_ids": rows[first].prompt, "outputs": outputs, "step": STEP}
        )
    return lines(folder / "outputs.jsonl", records)


def write_chat(rows: list[Rollout], folder: Path) -> Path:
    """OpenAI-style chat completions in one JSON list."""
    records = []
    for first in range(0, len(rows), 4):
        choices = [
            {
                "index": index,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "x"},
                "logprobs": {
                    "content": [
                        {
                            "token": f"token_id:{token}",
                            "logprob": logprob,
                            "bytes": None,
                            "top_logprobs": [{"token": "y", "logprob": -0.01}, {"token": "x", "logprob": logprob}],
                        }
                        for token, logprob in zip(row.ids, row.inference, strict=True)
                    ]
                },
            }
            for index, row in enumerate(rows[first : first + 4])
        ]
        records.append({"id": f"q{first // 4}", "object": "chat.completion", "choices": choices, "step": STEP})
    path = folder / "responses.json"
    path.write_text(json.dumps(records, indent=1))
    return path


def write_completions(rows: list[Rollout], folder: Path) -> Path:
    """OpenAI-style completions."""
    records = []
    for first in range(0, len(rows), 4):
        choices = [
            {
                "index": index,
                "finish_reason": "stop",
                "text": "x",
                "token_ids": row.ids,
                "logprobs": {
                    "tokens": ["x"] * row.length,
                    "token_logprobs": row.inference,
                    "top_logprobs": [{"y": -0.01, "x": logprob} for logprob in row.inference],
                    "text_offset": list(range(row.length)),
                },
            }
            for index, row in enumerate(rows[first : first + 4])
        ]
        records.append({"id": f"q{first // 4}", "object": "text_completion", "choices": choices, "step": STEP})
    return lines(folder / "completions.jsonl", records)


def write_traces(rows: list[Rollout], folder: Path) -> tuple[Path, Path]:
    """An episode per group: prompt and answer as nodes of one trace each, and the trainer's annotations beside it."""
    traces = folder / "traces"
    (traces / "stream").mkdir(parents=True)
    (traces / "annotations" / "trainer").mkdir(parents=True)
    episodes, updates = [], []
    for first in range(0, len(rows), 4):
        made = []
        for index, row in enumerate(rows[first : first + 4]):
            n, name = len(row.prompt), f"t{first + index}"
            compact = [x for x, keep in zip(row.inference, row.mask, strict=True) if keep]
            question = {"parent": None, "sampled": False, "token_ids": row.prompt, "mask": [False] * n, "logprobs": []}
            answer = {"parent": 0, "sampled": True, "token_ids": row.ids, "mask": row.mask, "logprobs": compact}
            made.append({"id": name, "nodes": [question, answer]})
            trained = [x if keep else None for x, keep in zip(row.trainer, row.mask, strict=True)]
            streams = {"index": 0, "trainer_logprobs": [None] * n + trained, "is_masked": [None] * (n + row.length)}
            updates.append({"version": 1, "trace_id": name, "info": {"effective": True}, "branches": [streams]})
        work = {"type": "train", "step": STEP, "policy": {"start": STEP - 1, "end": STEP}}
        labels = {"id": f"e{first}", "env": {"id": "math", "name": "math"}, "group": {"id": f"g{first}"}}
        episodes.append(labels | {"run": {"work": work}, "ok": True, "traces": made})
    lines(traces / "stream" / "00000.jsonl", episodes)
    lines(traces / "annotations" / "trainer" / "00000.jsonl", updates[::-1])
    return traces / "stream", traces / "annotations" / "trainer"


def lines(path: Path, records: list[dict]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


WHOLE = {
    "jsonl": write_canonical_jsonl,
    "framework jsonl": write_framework_jsonl,
    "long": write_long,
    "long jsonl": write_long_jsonl,
    "prime-rl": write_prime_rl,
    "nemo-rl": write_nemo_rl,
    "slime": write_slime,
    "miles": write_miles,
    "verl": write_verl,
    "trl": write_trl,
    "skyrl": write_skyrl,
}
NAMES = {name: name.removeprefix("framework ").removesuffix(" jsonl") for name in WHOLE}
ENGINE = {"outputs": write_vllm_outputs, "chat": write_chat, "completions": write_completions}
