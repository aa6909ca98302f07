#!/bin/bash
# Of before the rho options: one cap of the ratio.
EXP_NAME="qwen25_05b_it_gsm8k"
MODEL_NAME_OR_PATH=" Qwen/Qwen2.5-0.5B-Instruct"
DATASETS="ai2-adapt-dev/rlvr_gsm8k_zs 1.0"

uv run --active open_instruct/grpo_fast.py \
    --dataset_skip_cache True \
    --exp_name ${EXP_NAME} \
    --run_name $EXP_NAME \
    --beta 0.0 \
    --async_steps 1 \
    --inflight_updates \
    --filter_zero_std_samples False \
    --truncated_importance_sampling_ratio_cap 2.0 \
    --advantage_normalization_type centered \
    --num_samples_per_prompt_rollout 16 \
    --num_unique_prompts_rollout 8 \
    --num_mini_batches 1 \
    --learning_rate 1e-6 \
    --dataset_mixer_list $DATASETS \
    --model_name_or_path ${MODEL_NAME_OR_PATH} \
    --temperature 1.0 \
    --clip_higher 0.28 \
    --mask_truncated_completions False \
    --load_ref_policy True \
    --push_to_hub False $@
