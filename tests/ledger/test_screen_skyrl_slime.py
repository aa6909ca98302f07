"""SkyRL, slime and miles: the figures measured with the screen are those measured with every recipe on every token."""

from __future__ import annotations

import pytest

from iscope.ledger.plan import Plan
from iscope.ledger.screen import screen_of
from iscope.recipes import framework
from iscope.recipes.grammar import parse
from tests.ledger.test_screen_frameworks import test_the_screen_changes_no_figure as check

TABLES = [framework(name) for name in ("skyrl", "slime", "miles")]
SPECS = [
    *(row.name for table in TABLES for row in table.recipes),
    *(f"{table.name}/none:loss_type={name}" for table in TABLES for name, _ in table.losses),
    "skyrl/tis:sequence",
    "skyrl/tis:token,2,loss_type=gspo",
    "skyrl/tis:token,-1",
    "skyrl/tis:sequence,2,-0.7,loss_type=gspo",
    "skyrl/tis:token,1.3,loss_type=cispo,cispo_eps_clip_high=0.1,cispo_eps_clip_low=0.1",
    "skyrl/tis:token,2,loss_type=dppo,dppo_type=binary_kl,delta_low=0.01,delta_high=0.01",
    "skyrl/token_mask:0.9,1.1,loss_type=rollout_is",
    "skyrl/outlier:0.7,1.5,loss_type=dual_clip,clip_ratio_c=1.1",
    "skyrl/geometric:0.95,1.05,loss_type=sapo,loss_reduction=sequence_mean",
    "skyrl/off_policy_correction:token,2,outlier_low=0.2,outlier_high=4,token_low=0.5,token_high=2",
    "skyrl/off_policy_correction:token,2,outlier_low=0.2,outlier_high=4,mask_metric=geometric,geo_mask_low=0.95",
    "skyrl/off_policy_correction:sequence,token_low=0.9,token_high=1.1,mask_metric=product",
    "slime/tis:0.9,1.05,loss_type=gspo,use_opsm=true",
    "slime/icepop:0.5,2,use_rollout_logprobs=true,use_kl_loss=true,kl_loss_coef=0.1",
    "slime/icepop:0.9,1.1,loss_type=cispo,use_opsm=true,opsm_delta=0.02",
    "slime/mis:token,clip,0.9,1.1,tis_batch_normalize=false,rs_level=geometric",
    "slime/mis:token,mask,0.5,2,use_rs=false",
    "slime/mis:sequence,truncate,rs_veto_threshold=0.7,use_kl_loss=true,kl_loss_coef=0.1,kl_loss_type=low_var_kl",
    "slime/mis:geometric,mask,0.95,1.05,use_rs=false,tis_batch_normalize=false",
    "slime/mis:use_tis=false,calculate_per_token_loss=true",
]


@pytest.mark.parametrize("spec", SPECS)
def test_the_screen_changes_no_figure(golden, monkeypatch, spec):
    check(golden, monkeypatch, spec)


def test_recipes_of_token_bounds_use_the_screen_and_those_of_survivors_cannot():
    def dense(spec):
        return bool(screen_of(Plan((parse(spec),))).dense)

    assert not any(map(dense, ("skyrl/tis", "skyrl/geometric", "skyrl/outlier", "skyrl/token_mask", "slime/mis")))
    assert not dense("skyrl/off_policy_correction:token,2,outlier_low=0.2,outlier_high=4,token_low=0.5,token_high=2")
    assert dense("skyrl/off_policy_correction:token_low=0.5,token_high=2,mask_metric=product")
    assert dense("skyrl/off_policy_correction:sequence,token_low=0.5,token_high=2")
