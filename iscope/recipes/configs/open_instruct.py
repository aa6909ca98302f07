"""open-instruct's settings, ``GRPOExperimentConfig`` at git e6c3044aa: flags of its command line."""

from __future__ import annotations

from iscope.errors import UsageError
from iscope.recipes.configs.model import ABOVE_ZERO, GIVEN, Clash, ConfigRow, ConfigTable, Setting, Unreplayed, Values

_ON, _REF, _VLLM = "use_rho_correction", "load_ref_policy", "use_vllm_logprobs"
_UPPER = "rho_clamp_upper_bound"
# Before rho, the one bound there was; 0 corrected nothing.
_CAP = "truncated_importance_sampling_ratio_cap"
_OTHERS = ("rho_clamp_lower_bound", "rho_mask_lower_bound", "rho_mask_upper_bound")
_LEVELS = ("rho_mask_sequence_level", "rho_mask_tv_divergence")
_LOSS = ("loss_fn", "clip_lower", "clip_higher", _VLLM)
# kl1 to kl4 are the earlier names.
_ESTIMATORS = tuple((name, str(number)) for number in range(4) for name in (number, f"kl{number + 1}"))


def _checked(values: Values) -> Values:
    """Nothing further; without a reference there must be no KL term, which its default of beta would be."""
    if not values[_REF] and values["beta"]:
        raise UsageError(f"{_REF} is false, and beta is {values['beta']}; open-instruct refuses both: set beta to 0.")
    return {}


TABLE = ConfigTable(
    framework="open-instruct",
    version="open-instruct git e6c3044aa, GRPOExperimentConfig",
    syntax="flags",
    settings=(
        Setting(_ON, "", True, (True, False)),
        Setting(_CAP, "", None, old=True),
        *(Setting(name, name, words=((0, None),)) for name in (_UPPER, *_OTHERS)),
        *(Setting(name, name) for name in (*_LEVELS, *_LOSS)),
        Setting(_REF, "", True, (True, False)),
        Setting("beta", "beta", 0.05),
        Setting("kl_estimator", "kl_estimator", 2, words=_ESTIMATORS),
        Setting("loss_denominator", "loss_denominator", "token", words=(("token", None),)),
    ),
    rows=tuple(
        ConfigRow(f"open-instruct/{recipe}", when, options, read=_checked, told_by=(_REF,))
        for recipe, when, options in (
            ("rho", {_ON: True, _CAP: None}, {}),
            ("none", {_ON: False, _CAP: None}, {}),
            ("rho", {_CAP: ABOVE_ZERO}, {_CAP: _UPPER, _UPPER: ""}),
            ("none", {_CAP: 0}, {}),
        )
    ),
    sections=("rho_", "truncated_importance_sampling_"),
    clashes=(
        Clash(
            {_ON: False},
            (_UPPER, *_OTHERS, *_LEVELS),
            "without use_rho_correction it has no effect: turn it on, or take the setting out",
        ),
        Clash({_CAP: GIVEN}, (_ON, _UPPER, *_OTHERS, *_LEVELS), "one is of earlier, one of later versions: keep one"),
    ),
    unreplayed=(
        Unreplayed("tis_mask_lower", 0, "this version has rho_mask_lower_bound"),
        Unreplayed("tis_mask_upper", 0, "this version has rho_mask_upper_bound"),
    ),
)
