"""ms-swift's settings at 4.6.0: flags of ``swift rlhf --rlhf_type grpo``, its YAML, or the arguments it saves."""

from __future__ import annotations

from iscope.recipes.configs.model import Clash, ConfigRow, ConfigTable, Setting, Unreplayed, Values

_VLLM = "use_vllm"
_MODE, _BOUND = "rollout_importance_sampling_mode", "rollout_importance_sampling_threshold"
_MODES = ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")
_IN_REWARD, _ESTIMATOR = "kl_in_reward", "advantage_estimator"
_LOSS = (
    "loss_type",
    "importance_sampling_level",
    "epsilon",
    "epsilon_high",
    "delta",
    "tau_pos",
    "tau_neg",
    "real_tau",
    "fipo_decay_rate",
    "fipo_clip_high_only",
    "fipo_safety_threshold",
    "off_policy_sequence_mask_delta",
)


def _without_penalty(values: Values) -> Values:
    """With the KL term in the reward, where RLOO and REINFORCE++ put it by default, there is none in the loss."""
    chosen = values[_IN_REWARD]
    in_reward = values[_ESTIMATOR] != "grpo" if chosen is None else chosen
    return {"beta": 0.0} if in_reward else {}


def _row(recipe: str, **when: str | bool | None) -> ConfigRow:
    paths = {"vllm": _VLLM, "mode": _MODE}
    return ConfigRow(
        f"ms-swift/{recipe}",
        when={paths[name]: value for name, value in when.items()},
        read=_without_penalty,
        told_by=(_IN_REWARD, _ESTIMATOR),
    )


TABLE = ConfigTable(
    framework="ms-swift",
    version="ms-swift 4.6.0",
    syntax="flags",
    settings=(
        # False by default; but where there are vLLM's logprobs to compare with, vLLM was in use.
        Setting(_VLLM, "", True, (True, False)),
        Setting(_MODE, "", None, (None, *_MODES)),
        Setting(_BOUND, _BOUND),
        *(Setting(name, name) for name in _LOSS),
        Setting("fipo_clip_range", "fipo_clip_range", words=((0, None),)),
        Setting("beta", "beta", 0.04),
        Setting("max_completion_length", "max_completion_length", aliases=("max_new_tokens", "response_length")),
        Setting(_IN_REWARD, "", None, (None, True, False)),
        Setting(_ESTIMATOR, "", "grpo", ("grpo", "rloo", "reinforce_plus_plus")),
    ),
    rows=(_row("none", mode=None), *(_row(mode, vllm=True, mode=mode) for mode in _MODES)),
    sections=("rollout_importance_sampling_", "off_policy_sequence_mask_"),
    clashes=(
        Clash({_VLLM: False}, (_MODE,), "without vLLM ms-swift has nothing to compare: set use_vllm, or take it out"),
        Clash({_MODE: None}, (_BOUND,), "without a mode the bound has no effect: set one, or take it out"),
    ),
    unreplayed=(
        Unreplayed("top_entropy_quantile", 1, "it needs the entropy of each token's distribution"),
        Unreplayed("overlong_filter", False, "what it leaves out must already be in the dump's loss mask"),
        Unreplayed("sdar_loss_coef", 0, "no dump has the teacher's logprobs"),
    ),
)
