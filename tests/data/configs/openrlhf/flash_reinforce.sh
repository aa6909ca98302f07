#!/bin/bash
# A trust region on the mean binary KL of a rollout.
python3 -m openrlhf.cli.train_ppo_ray \
   --algo.advantage.estimator reinforce \
   --algo.kl.init_coef 0 \
   --algo.advantage.is_correction_level seq \
   --algo.advantage.is_correction_mode mask \
   --algo.advantage.is_correction_gating binary_kl \
   --algo.advantage.is_correction_threshold 0.005 \
   --actor.loss_agg_mode seq-mean-token-mean \
   --actor.dual_clip 10.0 \
   --actor.adam.lr 5e-7
