#!/usr/bin/env bash
# The algorithm's values of a fully asynchronous SkyRL run of CodeContests on two nodes; comments ours.
set -exuo pipefail

RANK="${JOB_COMPLETION_INDEX:-0}"
UV_RUN=(uv run --isolated --extra fsdp --extra harbor)
DATA_DIR="$HOME/data/harbor"
TRAIN_DATA="['$DATA_DIR/CodeContests']"

"${UV_RUN[@]}" python - <<'EOF'
import ray
ray.init(address="auto")  # it isn't up at once
EOF

RUN_NAME="codecontest-fullyasync-2node"
MINI_BATCH_SIZE=16
MAX_MODEL_LEN=40960  # the model's own
LOSS_REDUCTION="token_mean"
GRPO_NORM_BY_STD=false
USE_KL_LOSS=false

SEQUENCE_MASK_METRIC=geometric
GEO_MASK_HIGH=1.01
GEO_MASK_LOW=0.99

NUM_PARALLEL_GENERATION_WORKERS=$(( MINI_BATCH_SIZE * 4 ))

"${UV_RUN[@]}" -m examples.train_integrations.harbor.entrypoints.main_harbor_fully_async \
  data.train_data="$TRAIN_DATA" \
  trainer.policy.model.path=Qwen/Qwen3-8B \
  trainer.fully_async.enabled=true \
  trainer.fully_async.num_parallel_generation_workers=$NUM_PARALLEL_GENERATION_WORKERS \
  trainer.algorithm.policy_loss_type="rollout_is" \
  trainer.algorithm.advantage_estimator=grpo \
  trainer.algorithm.loss_reduction=$LOSS_REDUCTION \
  trainer.algorithm.grpo_norm_by_std=$GRPO_NORM_BY_STD \
  trainer.algorithm.use_kl_loss=$USE_KL_LOSS \
  trainer.algorithm.off_policy_correction.sequence_mask_metric=$SEQUENCE_MASK_METRIC \
  trainer.algorithm.off_policy_correction.geo_mask_high=$GEO_MASK_HIGH \
  trainer.algorithm.off_policy_correction.geo_mask_low=$GEO_MASK_LOW \
  trainer.algorithm.max_seq_len=$MAX_MODEL_LEN \
  trainer.policy.optimizer_config.lr=1.0e-6 \
  trainer.run_name=$RUN_NAME
