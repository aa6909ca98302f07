"""The recorder on a TRL run on CPU: a tiny model, and an engine that disagrees with it."""

from __future__ import annotations

import math
import types
import warnings

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import iscope
from iscope.errors import UsageError
from iscope.integrations.trl import record

GROUP = 4


class FakeTrainer:
    """As much of GRPOTrainer as the recorder touches: two processes, tool tokens, an evaluation."""

    def __init__(self, rank=0):
        self.accelerator = types.SimpleNamespace(process_index=rank)
        self.model = torch.nn.Linear(1, 1)
        self.state = types.SimpleNamespace(global_step=0)
        self.num_generations, self.reward_weights = GROUP, torch.tensor([1.0, 0.5])
        self.temperature, self.top_p, self.top_k, self.min_p = 0.9, 1.0, 0, None
        self.use_vllm, self.vllm_mode, self._last_loaded_step = True, "colocate", -1
        self.callbacks = []

    def add_callback(self, callback):
        self.callbacks.append(callback)

    def _calculate_rewards(self, *_):
        return torch.tensor([[float(row), math.nan] for row in range(2 * GROUP)])

    def _generate_and_score_completions(self, inputs):
        self._calculate_rewards(inputs)
        mask = torch.tensor([[1, 1, 1, 0]] * 2 + [[1, 0, 0, 0]] + [[0, 0, 0, 0]])
        return {
            "completion_ids": torch.arange(16).view(4, 4),
            "completion_mask": mask,
            "tool_mask": torch.tensor([[1, 0, 1, 1]] * 4),
            "advantages": torch.tensor([1.0, -1.0, 0.5, 0.0]),
            "old_per_token_logps": -torch.ones(4, 4),
            "sampling_per_token_logps": torch.tensor([[-1.5, 0.0, math.nan, 0.0]] * 4),
        } | inputs


@pytest.mark.parametrize("rank", [0, 1])
def test_what_is_recorded(tmp_path, rank):
    trainer = FakeTrainer(rank)
    recorder = record(trainer, tmp_path, settings={"top_p": 0.95})
    output = trainer._generate_and_score_completions({})
    assert output["completion_ids"].shape == (4, 4)
    trainer.model.eval()
    trainer._generate_and_score_completions({})
    trainer.model.train()
    trainer.state.global_step = trainer._last_loaded_step = 1
    trainer._generate_and_score_completions({})
    for event in ("on_step_end", "on_train_end"):
        getattr(trainer.callbacks[0], event)(None, None, None, model=None)
    trainer._generate_and_score_completions({})
    recorder.close()
    names = [f"step{step:06d}-rank{rank:03d}.parquet" for step in (0, 1)]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    rows = pq.read_table(tmp_path / names[1]).to_pylist()
    assert [row["token_ids"] for row in rows] == [[0, 1, 2], [4, 5, 6], [8], []]
    assert [row["loss_mask"] for row in rows] == [[True, False, True], [True, False, True], [True], []]
    assert rows[0]["inference_logprobs"][:2] == [-1.5, 0.0]
    assert np.isnan(rows[0]["inference_logprobs"][2])
    assert [row["group_id"] for row in rows] == [f"1/1/{rank}"] * 4
    assert [row["rollout_id"] for row in rows] == [f"1/1/{4 * rank + row}" for row in range(4)]
    assert [row["reward"] for row in rows] == [4.0 * rank + row for row in range(4)]
    assert {(row["policy_version"], row["trainer_version"], row["top_p"], row["temperature"]) for row in rows} == {
        (1, 1, 0.95, 0.9)
    }
    assert rows[0]["logprobs_mode"] == "processed_logprobs"


def test_a_run_without_the_trainers_logprobs_is_told(tmp_path):
    trainer = FakeTrainer()
    with record(trainer, tmp_path), pytest.warns(UserWarning, match="TRL computed no trainer logprobs"):
        trainer._generate_and_score_completions({"old_per_token_logps": None})
    assert "inference_logprobs" in pq.read_schema(tmp_path / "step000000-rank000.parquet").names


def test_another_trainer_is_refused(tmp_path):
    with pytest.raises(UsageError, match="object has no _generate_and_score_completions"):
        record(object(), tmp_path)


METRICS = [
    f"sampling/{name}"
    for name in (
        "sampling_logp_difference/mean",
        "sampling_logp_difference/max",
        "importance_sampling_ratio/min",
        "importance_sampling_ratio/mean",
        "importance_sampling_ratio/max",
    )
]


def tiny_run(folder, mode):
    """Three steps of GRPO on a two-layer model; the engine's logprobs are the model's, disturbed."""
    from datasets import Dataset
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    from trl import GRPOConfig, GRPOTrainer

    torch.manual_seed(0)
    words = {word: index for index, word in enumerate(["<pad>", "<eos>", *"abcdefgh"])}
    tokens = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token="<pad>", eos_token="<eos>")
    shape = LlamaConfig(
        vocab_size=len(words), hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2
    )
    shape.pad_token_id, shape.eos_token_id = 0, 1
    rng = np.random.default_rng(0)

    def engine(prompts, trainer):
        ids = [rng.integers(2, len(words), int(rng.integers(1, 7))).tolist() for _ in prompts]
        return {
            "prompt_ids": [tokenizer(prompt)["input_ids"] for prompt in prompts],
            "completion_ids": ids,
            "logprobs": [(-2.3 + rng.normal(0, 0.5, len(row))).clip(max=0).tolist() for row in ids],
            "env_mask": [[int(rng.random() < 0.8) for _ in row] for row in ids],
        }

    arguments = GRPOConfig(
        output_dir=str(folder / "out"),
        per_device_train_batch_size=8,
        num_generations=GROUP,
        max_completion_length=8,
        max_steps=3,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        learning_rate=1e-2,
        vllm_importance_sampling_mode=mode,
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=LlamaForCausalLM(shape),
        reward_funcs=lambda completions, **_: [float(len(text)) for text in completions],
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": ["a b", "c d e", "f", "g h"]}),
        processing_class=tokenizer,
        rollout_func=engine,
    )
    # What vLLM's presence switches on, without vLLM: the engine above samples instead.
    trainer.use_vllm, trainer._last_loaded_step = True, -1
    trainer.vllm_generation = types.SimpleNamespace(sync_weights=lambda: None)
    record(trainer, folder / "dump")
    trainer.train()
    return [entry for entry in trainer.state.log_history if METRICS[0] in entry]


@pytest.mark.parametrize("mode", ["token_truncate", "sequence_mask"])
def test_the_dump_gives_the_metrics_that_trl_logged(tmp_path, mode):
    pytest.importorskip("trl", reason="needs the extra iscope[trl]")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the frameworks
        logged = tiny_run(tmp_path, mode)
    assert len(logged) == 3
    for entry in logged:
        step = entry["step"] - 1  # TRL logs after the step is counted
        report = iscope.analyze(tmp_path / "dump", recipes=[f"trl/{mode}"], where=f"step = {step}")
        framework = report.to_dict()["recipes"][0]["framework"]
        assert report.coverage.rollouts_read == 8
        for name in METRICS:
            found = framework[name]
            value = found["value"] if isinstance(found, dict) else found
            assert value == pytest.approx(entry[name], rel=2e-6, abs=1e-7), name
    frame = pq.read_table(tmp_path / "dump")
    groups = frame.column("group_id").to_pylist()
    assert sorted(groups.count(group) for group in set(groups)) == [GROUP] * 6
