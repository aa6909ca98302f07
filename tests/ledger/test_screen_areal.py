"""The figures of AReaL's recipes measured with the screen are those measured with every recipe on every token."""

from __future__ import annotations

import pytest

from tests.ledger.test_screen_frameworks import test_the_screen_changes_no_figure as check_screen

GSPO = "importance_sampling_level=sequence"
SPECS = [
    "areal/none",
    "areal/none:c_clip=1.2",
    f"areal/none:{GSPO}",
    "areal/rejection_sampling:upper=2,lower=0.5",
    "areal/rejection_sampling:upper=1.1,lower=0.9,m2_threshold=0.01",
    "areal/rejection_sampling:upper=2,lower=0.5,action=clamp",
    "areal/rejection_sampling:upper=0.5,metric=kl_k1,lower=-0.5",
    "areal/rejection_sampling:upper=0.02,metric=kl_k2",
    "areal/rejection_sampling:upper=0.02,metric=kl_k3",
    "areal/rejection_sampling:upper=1.02,lower=0.98,level=sequence",
    "areal/rejection_sampling:upper=1.02,lower=0.98,level=sequence,action=clamp,agg=max",
    "areal/rejection_sampling:upper=0.02,level=sequence,metric=kl_k3,agg=max",
    f"areal/rejection_sampling:upper=2,lower=0.5,{GSPO}",
    "areal/m2po:0.01",
    "areal/coupled",
    f"areal/coupled:{GSPO}",
    "areal/sapo",
    f"areal/sapo:{GSPO}",
]


@pytest.mark.parametrize("spec", SPECS)
def test_the_screen_changes_no_figure_of_areal(golden, monkeypatch, spec):
    check_screen(golden, monkeypatch, spec)
