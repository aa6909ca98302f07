#!/bin/bash
# TRL through accelerate: flags, a variable, and one flag that is written with an equals sign.
EPSILON_HIGH=0.28
accelerate launch --config_file zero3.yaml --num_processes 8 grpo.py \
  --model_name_or_path Qwen/Qwen3-8B \
  --use_vllm True \
  --vllm_mode colocate \
  --loss_type grpo \
  --epsilon_high ${EPSILON_HIGH} \
  --beta=0.01 \
  --vllm_importance_sampling_mode sequence_truncate \
  --vllm_importance_sampling_clip_min 0.5 \
  --vllm_importance_sampling_clip_max 5 \
  --log_completions \
  --reward_funcs accuracy format
