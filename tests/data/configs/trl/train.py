"""A run of TRL's GRPOTrainer as its documentation sets one up; every value is a literal or a name for one."""

import os

from datasets import load_dataset
from peft import LoraConfig
from trl import GRPOConfig, GRPOTrainer

MAX_COMPLETION = 1024
dataset = load_dataset("trl-lib/tldr", split="train")


def reward_len(completions, **kwargs):
    return [-abs(20 - len(completion)) for completion in completions]


training_args = GRPOConfig(
    output_dir=os.environ["RUN_DIR"],
    learning_rate=1e-6,
    use_vllm=True,
    vllm_mode="colocate",
    vllm_gpu_memory_utilization=0.3,
    max_completion_length=MAX_COMPLETION,
    num_generations=4,
    loss_type="dr_grpo",
    epsilon_high=0.28,
    vllm_importance_sampling_mode="token_truncate",
    vllm_importance_sampling_clip_max=2.0,
    report_to=None,
)
trainer = GRPOTrainer(
    model="Qwen/Qwen2-0.5B-Instruct",
    reward_funcs=reward_len,
    args=training_args,
    train_dataset=dataset,
    peft_config=LoraConfig(r=32, target_modules=["q_proj", "v_proj"]),
)
trainer.train()
