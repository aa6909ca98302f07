#!/bin/bash
set -x

# SkyRL's example of CISPO, examples/train/algorithms/cispo/run_cispo_gsm8k.sh: its values, shortened.
DATA_DIR="$HOME/data/gsm8k"
NUM_GPUS=4
POLICY_LOSS="cispo"
CISPO_EPS_CLIP_LOW=1
CISPO_EPS_CLIP_HIGH=4
USE_KL_LOSS=false

uv run --isolated --extra fsdp -m skyrl.train.entrypoints.main_base \
  data.train_data="['$DATA_DIR/train.parquet']" \
  trainer.algorithm.policy_loss_type="$POLICY_LOSS" \
  trainer.algorithm.cispo.cispo_eps_clip_low=$CISPO_EPS_CLIP_LOW \
  trainer.algorithm.cispo.cispo_eps_clip_high=$CISPO_EPS_CLIP_HIGH \
  trainer.policy.model.path="Qwen/Qwen2.5-1.5B-Instruct" \
  trainer.placement.policy_num_gpus_per_node=$NUM_GPUS \
  trainer.policy.optimizer_config.lr=1.0e-6 \
  trainer.algorithm.use_kl_loss=$USE_KL_LOSS \
  generator.inference_engine.backend=vllm \
  trainer.resume_mode=null \
  trainer.ckpt_path="$HOME/ckpts/cispo_gsm8k_1.5B_ckpt" \
  $@
