"""The canonical columns of a dump and the names that frameworks give them."""

from __future__ import annotations

from iscope.rollouts import LOGPROBS

SIDES = ("trainer", "inference", "current", "ref")

LOGPROBS_OF = dict(zip(SIDES, LOGPROBS, strict=True))

SETTINGS = ("temperature", "top_p", "top_k", "min_p", "logprobs_mode", "finish_reason", "env")
IDS = ("rollout_id", "group_id")
SCALARS = (*IDS, "step", "reward", "policy_version", "trainer_version", *SETTINGS)

# One entry per canonical column: the names that mean it, whatever the framework they come from.
ALIASES: dict[str, tuple[str, ...]] = {
    "trainer_logprobs": (
        "old_per_token_logps",  # TRL, ms-swift
        "old_log_probs",  # verl
        "prev_logprobs",  # NeMo-RL
        "action_log_probs",  # SkyRL, OpenRLHF
        "log_probs",  # slime, miles
        "prox_logp",  # AReaL
        "trainer_log_probs",
        "train_log_probs",
        "train_logprobs",
    ),
    "inference_logprobs": (
        "sampling_per_token_logps",  # TRL
        "rollout_log_probs",  # verl, slime, miles, OpenRLHF
        "rollout_logprobs",  # SkyRL
        "rollout_per_token_logps",  # ms-swift
        "generation_logprobs",  # NeMo-RL
        "infer_logprobs",  # ROLL
        "vllm_logprobs",
        "vllm_log_probs",
        "sampling_logprobs",
        "inference_log_probs",
        "completion_logprobs",  # prime-rl
    ),
    "current_logprobs": ("per_token_logps", "current_log_probs", "curr_logprobs", "new_log_probs", "new_logprobs"),
    "ref_logprobs": (
        "ref_per_token_logps",  # TRL
        "ref_log_probs",  # slime, miles
        "ref_log_prob",  # verl
        "base_action_log_probs",  # SkyRL, OpenRLHF
        "reference_policy_logprobs",  # NeMo-RL
        "reference_logprobs",
        "ref_logp",  # AReaL
    ),
    "loss_mask": (
        "completion_mask",  # TRL
        "response_mask",  # verl
        "token_loss_mask",  # NeMo-RL
        "loss_masks",  # slime, miles
        "action_mask",  # OpenRLHF
    ),
    "advantage": ("advantages",),
    "reward": ("rewards",),
    "token_ids": (
        "completion_ids",  # TRL
        "completion_token_ids",
        "response_ids",
        "responses",  # verl
        "response_tokens",
        "output_token_ids",
        "tokens",  # slime, miles
    ),
    "rollout_id": ("sample_id", "trajectory_id"),
    "group_id": ("uid", "group_index"),  # verl, slime
    "step": ("global_step", "train_step", "training_step"),
    "policy_version": ("weight_version", "weight_versions", "versions", "behavior_version"),
    "trainer_version": ("train_version",),
    "finish_reason": ("stop_reason",),
    "env": ("env_name", "env_class", "data_source"),  # prime-rl, SkyRL, verl
}

# Names under which one framework stores one policy and another framework another.
AMBIGUOUS = ("old_logp", "old_logps", "old_logprobs", "old_log_prob")

# In a file that belongs to one side these are that side's; elsewhere they say nothing about the policy.
PLAIN = ("logprobs", "log_probs", "logprob", "logps", "logp", "log_prob")

# A second candidate for one of these changes the figures, so it is never passed over in silence.
STRICT = (*LOGPROBS, "loss_mask", "advantage")

# Under this name a side carries the column it is paired on; no column of a dump is called so.
KEY = "pairing key"

# Text, read only for the rollouts that a report shows, and only where it is asked for: one string per token, or one per
# rollout. A column counts only with strings in it: elsewhere the same names hold ids.
TEXTS: dict[str, tuple[str, ...]] = {
    "token_texts": ("token_strings", "token_strs", "tokens_str", "tokens_text", "decoded_tokens", "tokens"),
    "completion": (
        "completions",
        "completion_text",
        "response",  # slime, miles, ROLL
        "responses",
        "response_text",
        "output",  # verl
        "outputs",
        "output_text",
        "output_response",  # SkyRL
        "generated_text",
        "text",  # vLLM
    ),
}

CANONICAL = (*LOGPROBS, "loss_mask", "advantage", "token_ids", *SCALARS)
