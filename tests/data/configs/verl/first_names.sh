# As runs of verl 0.6 set it, before the section had its present name.
python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    algorithm.rollout_is_threshold=2.0 \
    algorithm.rollout_is_level=token \
    algorithm.rollout_is_mode=truncate \
    algorithm.rollout_is=True \
    actor_rollout_ref.rollout.calculate_log_probs=True
    # +algorithm.rollout_is_level=sequence
