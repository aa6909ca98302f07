"""TRL's settings, ``GRPOConfig`` of TRL 1.16.0: its YAML, JSON of its arguments, or command line."""

from __future__ import annotations

from iscope.recipes.configs.model import Clash, ConfigRow, ConfigTable, Setting, Unreplayed

_VLLM, _ON, _MODE = "use_vllm", "vllm_importance_sampling_correction", "vllm_importance_sampling_mode"
_MIN, _MAX = "vllm_importance_sampling_clip_min", "vllm_importance_sampling_clip_max"
_MODES = ("sequence_mask", "token_mask", "token_truncate", "sequence_truncate")
_LOSS = (
    "loss_type",
    "importance_sampling_level",
    "epsilon",
    "epsilon_high",
    "delta",
    "sapo_temperature_pos",
    "sapo_temperature_neg",
    "vespo_k_pos",
    "vespo_lambda_pos",
    "vespo_k_neg",
    "vespo_lambda_neg",
    "off_policy_mask_threshold",
    "beta",
    "use_bias_correction_kl",
    "max_completion_length",
)

TABLE = ConfigTable(
    framework="trl",
    version="TRL 1.16.0, GRPOConfig",
    syntax="yaml",
    settings=(
        # False by default; but where there are vLLM's logprobs to compare with, vLLM was in use.
        Setting(_VLLM, default=True, choices=(True, False)),
        Setting(_ON, default=True, choices=(True, False)),
        Setting(_MODE, default="sequence_mask", choices=_MODES),
        Setting(_MIN, option=_MIN, aliases=("vllm_importance_sampling_min",)),
        Setting(_MAX, option=_MAX, aliases=("vllm_importance_sampling_cap", "vllm_importance_sampling_max")),
        *(Setting(name, option=name) for name in _LOSS),
    ),
    rows=(
        ConfigRow("trl/none", when={_VLLM: True, _ON: False}),
        ConfigRow("trl/none", when={_VLLM: False}),
        *(ConfigRow(f"trl/{mode}", when={_VLLM: True, _ON: True, _MODE: mode}) for mode in _MODES),
    ),
    sections=("vllm_importance_sampling_",),
    clashes=(
        Clash({_VLLM: False}, (_MODE, _MIN, _MAX), "without vLLM TRL corrects nothing: set use_vllm, or take it out"),
        Clash({_ON: False}, (_MODE, _MIN, _MAX), "without the correction it has no effect: turn it on, or take it out"),
    ),
    unreplayed=(Unreplayed("top_entropy_quantile", 1, "it needs the entropy of each token's distribution"),),
)
