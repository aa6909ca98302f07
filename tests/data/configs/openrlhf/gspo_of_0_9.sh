#!/bin/bash
# Of before the dotted names.
python3 -m openrlhf.cli.train_ppo_ray \
    --colocate_all_models \
    --vllm_num_engines 8 \
    --advantage_estimator group_norm \
    --eps_clip_low_high 3e-4 4e-4 \
    --policy_loss_type gspo \
    --enable_vllm_is_correction \
    --vllm_is_truncated_threshold 2 \
    --temperature 1.0 \
    --top_p 1.0 \
    --save_steps 20
