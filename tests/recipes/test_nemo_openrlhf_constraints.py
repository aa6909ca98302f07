"""What NeMo-RL, OpenRLHF and open-instruct refuse is refused, in one sentence that says what and why."""

from __future__ import annotations

import pytest

from iscope.errors import UsageError
from iscope.recipes import parse

REFUSED = {
    "nemo-rl/is:sequence_level_importance_ratios=true": (
        "nemo-rl/is: only one of sequence_level_importance_ratios and token_level_loss may be set, but "
        "sequence_level_importance_ratios is true and token_level_loss is true by default."
    ),
    "nemo-rl/none:use_cispo=true,disable_ppo_ratio=true": (
        "nemo-rl/none: only one of use_cispo and disable_ppo_ratio may be set, but use_cispo is true and "
        "disable_ppo_ratio is true."
    ),
    "nemo-rl/none:use_cispo=true,ratio_clip_c=3": (
        "nemo-rl/none: only one of use_cispo and ratio_clip_c may be set, but use_cispo is true and ratio_clip_c is 3."
    ),
    "nemo-rl/none:use_cispo=true,token_level_loss=false": (
        "nemo-rl/none: use_cispo needs token_level_loss, but use_cispo is true and token_level_loss is false."
    ),
    "nemo-rl/none:ratio_clip_c=1": "nemo-rl/none: ratio_clip_c must be above 1, but ratio_clip_c is 1.",
    "nemo-rl/icepop:2,1": "nemo-rl/icepop: ratio_min must not exceed ratio, but ratio_min is 2 and ratio is 1.",
    "nemo-rl/tis:ratio=0": "nemo-rl/tis: ratio must be above 0, but ratio is 0.",
    "nemo-rl/seq-mask-tis:sequence_level_importance_ratios=true,token_level_loss=false": (
        "nemo-rl/seq-mask-tis: sequence_level_importance_ratios must not be true, but sequence_level_importance_ratios "
        "is true; its weights are of tokens, whatever it rejects."
    ),
    "openrlhf/tis:policy_loss_type=gspo": (
        "openrlhf/tis: policy_loss_type must not be gspo, but policy_loss_type is gspo; there OpenRLHF ignores mode, "
        "gating and threshold: see openrlhf/gspo."
    ),
    "open-instruct/rho:mask_upper=0.5": ("open-instruct/rho: mask_upper must be above 1, but mask_upper is 0.5."),
    "open-instruct/rho:use_vllm_logprobs=true": (
        "open-instruct/rho: use_vllm_logprobs must not be true, but use_vllm_logprobs is true; open-instruct takes it "
        "without a correction only."
    ),
}


@pytest.mark.parametrize("spec", REFUSED)
def test_refused(spec):
    with pytest.raises(UsageError) as caught:
        parse(spec)
    assert str(caught.value) == REFUSED[spec]


def test_a_bound_that_is_equal_is_accepted():
    assert parse("nemo-rl/icepop:1,1").options["ratio"] == 1


def test_defaults_are_the_frameworks_own():
    openrlhf = parse("openrlhf/icepop").options
    assert (openrlhf["low"], openrlhf["high"], openrlhf["dual_clip"], openrlhf["clip_eps_low"]) == (0.5, 5, None, 0.2)
    nemo = parse("nemo-rl/none").options
    assert (nemo["ratio_clip_min"], nemo["ratio_clip_max"], nemo["ratio_clip_c"]) == (0.2, 0.2, None)
    assert (nemo["kl_input_clamp_value"], nemo["kl_output_clamp_value"]) == (20, 10)
    rho = parse("open-instruct/rho").options
    assert (rho["clamp_lower"], rho["clamp_upper"], rho["mask_lower"], rho["mask_upper"]) == (None, 2, None, None)
    assert (rho["clip_lower"], rho["clip_higher"], rho["loss_fn"]) == (0.2, 0.272, "dapo")
