"""NeMo-RL's settings, ``loss_fn`` of its YAML at git 7ea279ab, ``ClippedPGLossConfig``."""

from __future__ import annotations

from iscope.recipes.configs.model import Clash, ConfigRow, ConfigTable, Include, Setting, Values

_AT = "loss_fn."
_ON, _TYPE = f"{_AT}use_importance_sampling_correction", f"{_AT}truncated_importance_sampling_type"
_RATIO = f"{_AT}truncated_importance_sampling_ratio"
_KL, _IN_REWARD = f"{_AT}reference_policy_kl_penalty", f"{_AT}use_kl_in_reward"
_TYPES = ("tis", "icepop", "seq-mask-tis")
_LOSS = (
    "token_level_loss",
    "sequence_level_importance_ratios",
    "ratio_clip_min",
    "ratio_clip_max",
    "ratio_clip_c",
    "use_cispo",
    "disable_ppo_ratio",
    "force_on_policy_ratio",
    "reference_policy_kl_type",
    "kl_input_clamp_value",
    "kl_output_clamp_value",
    "use_on_policy_kl_approximation",
    "positive_example_nll_weight",
)


def _without_penalty(values: Values) -> Values:
    """With the KL term in the reward there is none in the loss."""
    return {"reference_policy_kl_penalty": 0.0} if values[_IN_REWARD] else {}


def _row(name: str, **when: str | bool | None) -> ConfigRow:
    conditions = {{"on": _ON, "kind": _TYPE}[which]: value for which, value in when.items()}
    return ConfigRow(f"nemo-rl/{name}", when=conditions, read=_without_penalty, told_by=(_IN_REWARD,))


TABLE = ConfigTable(
    framework="nemo-rl",
    version="NeMo-RL git 7ea279ab",
    syntax="yaml",
    settings=(
        Setting(_ON, "", False, (True, False)),
        Setting(_TYPE, "", None, (None, *_TYPES)),
        # NeMo-RL itself has no default of the bounds.
        Setting(_RATIO, "truncated_importance_sampling_ratio", None),
        Setting(f"{_RATIO}_min", "truncated_importance_sampling_ratio_min", None),
        *(Setting(_AT + name, name) for name in _LOSS),
        Setting(_KL, "reference_policy_kl_penalty", 0.01),
        Setting(_IN_REWARD, "", False, (True, False)),
        Setting("grpo.seq_logprob_error_threshold", "seq_logprob_error_threshold"),
    ),
    rows=(
        _row("none", on=False),
        _row("is", on=True, kind=None),
        *(_row(kind, on=True, kind=kind) for kind in _TYPES),
    ),
    sections=(_AT,),
    clashes=(
        Clash({_ON: False}, (_TYPE,), f"NeMo-RL refuses it: set {_ON}, or take the type out"),
        Clash(
            {_TYPE: None},
            (_RATIO,),
            "NeMo-RL stops at its first step: say which type the bound is of (before there were types it was tis)",
        ),
    ),
    include=Include(("defaults", "config"), last=False),
)
