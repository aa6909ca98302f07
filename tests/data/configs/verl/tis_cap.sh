# As runs of verl 0.5 set truncated importance sampling.
python3 -m recipe.dapo.main_dapo \
    algorithm.adv_estimator=grpo \
    actor_rollout_ref.actor.clip_ratio_low=0.2 \
    actor_rollout_ref.actor.clip_ratio_high=0.28 \
    actor_rollout_ref.actor.tis_imp_ratio_cap=2.0 \
    actor_rollout_ref.actor.clip_ratio_c=10.0 \
    actor_rollout_ref.actor.optim.lr=1e-6 \
    actor_rollout_ref.rollout.calculate_log_probs=True \
    trainer.device='npu' $@
