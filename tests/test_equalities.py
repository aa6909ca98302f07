"""Rows of different frameworks that compute the same, and ones that look alike and do not.

Without current logprobs the ratio current over trainer is 1, so that what is left of a loss is its correction: equal
rows then have equal weights, equal keep-decisions and, before the division by a count, equal score coefficients.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from iscope.recipes import parse
from iscope.replay.outcome import Outcome, replay_batch
from tests.contract_cases import batch_of, exact, ragged

OFF_POLICY = exact(batch_of(ragged(seed=5, lengths=(9, 4, 1, 12, 0, 7, 2, 15) * 4, spread=0.6)))
ON_POLICY = replace(OFF_POLICY, current_logprobs=None)

_NEMO = "reference_policy_kl_penalty=0"
_MIS = "use_rs=false,tis_batch_normalize=false"
_OPEN = "clamp_upper=none,mask_lower=0.5,mask_upper=2"
_AREAL = "areal/rejection_sampling:level"

# What is computed: the rows that compute it.
EQUAL = {
    "token ratio, at most 2": (
        "tis:2",
        "trl/token_truncate:clip_max=2",
        "prime-rl/cispo:ratio_low=0,ratio_high=2",
        "verl/rollout_is:level=token,threshold=2",
        "verl/decoupled_token_is:2",
        f"nemo-rl/tis:ratio=2,{_NEMO}",
        "openrlhf/tis:low=1e-9,high=2",
        "open-instruct/rho:clamp_upper=2",
        "skyrl/tis:ratio_type=token,token_clip=2",
        "slime/tis:clip_low=0,clip_high=2",
        f"slime/mis:tis_level=token,tis_mode=truncate,tis_high=2,{_MIS}",
        "miles/tis:clip_low=0,clip_high=2",
        f"{_AREAL}=token,action=clamp,lower=0,upper=2",
        "ms-swift/token_truncate:2",
    ),
    "token ratio within 0.5 and 2, else 0": (
        "icepop:0.5,2",
        "trl/token_mask:clip_min=0.5,clip_max=2",
        "prime-rl/icepop:ratio_low=0.5,ratio_high=2",
        "verl/rollout_is:level=token,threshold=0.5_2",
        "verl/decoupled_token_icepop:threshold=2,threshold_lower=0.5",
        "verl/bypass_pg_token_icepop:threshold=2,threshold_lower=0.5",
        "verl/bypass_pg:level=token,is_threshold=0.5_2",
        f"nemo-rl/icepop:ratio_min=0.5,ratio=2,{_NEMO}",
        "openrlhf/icepop:low=0.5,high=2",
        f"open-instruct/rho:{_OPEN}",
        "slime/icepop:clip_low=0.5,clip_high=2",
        f"slime/mis:tis_level=token,tis_mode=mask,tis_low=0.5,tis_high=2,{_MIS}",
        "miles/icepop:clip_low=0.5,clip_high=2",
        f"{_AREAL}=token,action=mask,lower=0.5,upper=2",
    ),
    "token ratio up to 2, else 0": ("icepop:low=none,high=2", "trl/token_mask:clip_max=2", "ms-swift/token_mask:2"),
    "weight 1 where the token ratio lies within 0.5 and 2": (
        "skyrl/token_mask:token_low=0.5,token_high=2",
        "verl/rollout_rs:option=token_k1,threshold=0.5_2",
        "prime-rl/mis_po:geo_mask_low=0,geo_mask_high=1e9,token_mask_low=0.5,token_mask_high=2",
    ),
    "product, at most 2": (
        "trl/sequence_truncate:clip_max=2",
        "prime-rl/seq_tis:2",
        "verl/rollout_is:level=sequence,threshold=2",
        "verl/decoupled_seq_is:2",
        "verl/bypass_pg:level=sequence,is_threshold=2",
        "skyrl/tis:ratio_type=sequence,seq_clip=2",
        f"slime/mis:tis_level=sequence,tis_mode=truncate,tis_high=2,{_MIS}",
    ),
    "product within 0.5 and 2, else 0": (
        "trl/sequence_mask:clip_min=0.5,clip_max=2",
        "verl/rollout_is:level=sequence,threshold=0.5_2",
        f"slime/mis:tis_level=sequence,tis_mode=mask,tis_low=0.5,tis_high=2,{_MIS}",
    ),
    "weight 1 where the product lies within 0.5 and 2": (
        "skyrl/product:0.5,2",
        "verl/rollout_rs:option=seq_sum_k1,threshold=0.5_2",
    ),
    "weight 1 where the geometric ratio lies within 0.8 and 1.25": (
        "geometric_mask:0.8,1.25",
        "prime-rl/geo_mask:0.8,1.25",
        "skyrl/geometric:0.8,1.25",
        "verl/decoupled_geo_rs:0.8_1.25",
        "verl/bypass_pg:level=none,option=seq_mean_k1,rs_threshold=0.8_1.25",
    ),
    "weight 1 where the geometric ratio lies within 0.8 and 2; verl's bounds are inverted": (
        "geometric_mask:0.8,2",
        "verl/decoupled_geo_rs:0.5_1.25",
    ),
    "token ratio where the geometric ratio lies within 0.8 and 1.25": (
        "geometric_mask:0.8,1.25,token",
        f"nemo-rl/seq-mask-tis:ratio_min=0.8,ratio=1.25,{_NEMO}",
        "openrlhf/seq-mask-tis:low=0.8,high=1.25",
    ),
    "token ratio where the geometric ratio is at most 1.25": (
        "geometric_mask:none,1.25,token",
        "ms-swift/sequence_mask:1.25",
    ),
    "product where the geometric ratio lies within 0.8 and 1.25": (
        "geometric_mask:0.8,1.25,sequence",
        "prime-rl/seq_mis:0.8,1.25",
    ),
    "geometric ratio where it lies within 0.8 and 1.25": (
        "geometric_mask:0.8,1.25,geometric",
        f"{_AREAL}=sequence,action=mask,agg=mean,lower=0.8,upper=1.25",
        "open-instruct/rho:clamp_upper=none,mask_lower=0.8,mask_upper=1.25,sequence_level=true",
    ),
    "token ratio where the probability moved by at most 0.1": (
        "openrlhf/token_tv:0.1",
        "prime-rl/ipo:eps=0.1",
        "prime-rl/ipo@2026-08:ipo_threshold=0.1,kl_tau=0",
    ),
}

# Rows that share a name or a bound, and what tells them apart.
UNEQUAL = {
    "the product is not the geometric mean": ("trl/sequence_mask:clip_max=2", "ms-swift/sequence_mask:2"),
    "masked is not truncated": ("trl/sequence_mask:clip_max=2", "trl/sequence_truncate:clip_max=2"),
    "a band is not its name": ("icepop", "prime-rl/icepop"),
    "verl inverts the bounds of k1": ("geometric_mask:0.5,1.25", "verl/decoupled_geo_rs:0.5_1.25"),
    "SkyRL's band weighs 1": ("icepop:0.5,2", "skyrl/token_mask:token_low=0.5,token_high=2"),
}


def _outcome(spec: str, batch=ON_POLICY) -> Outcome:
    return replay_batch(batch, parse(spec), "exclude")


def _same(one: Outcome, other: Outcome) -> bool:
    close = [torch.allclose(getattr(one, x), getattr(other, x), rtol=1e-12, atol=1e-12) for x in ("weight", "score")]
    return all(close) and one.keep.equal(other.keep)


@pytest.mark.parametrize(("first", "other"), [(rows[0], row) for rows in EQUAL.values() for row in rows[1:]])
def test_equal_rows(first, other):
    one, two = _outcome(first), _outcome(other)
    assert torch.allclose(one.weight, two.weight, rtol=1e-12, atol=1e-12)
    assert one.keep.equal(two.keep)
    assert torch.allclose(one.score, two.score, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("first", [rows[0] for rows in EQUAL.values()], ids=list(EQUAL))
def test_the_batch_tells_the_bounds(first):
    """Some tokens lie inside the bounds of each row and some outside, so that equal rows are equal for a reason."""
    weight = _outcome(first).weight
    touched = ~torch.isclose(weight, _outcome("geometric_mask:low=1e-9,high=none,level=token").weight)
    assert int(touched.sum()) > 0
    assert weight.unique().numel() > 1


@pytest.mark.parametrize(("one", "other"), UNEQUAL.values(), ids=list(UNEQUAL))
def test_rows_that_only_look_alike(one, other):
    assert not _same(_outcome(one), _outcome(other))


def test_one_ratio_and_two_ratios_part_off_policy():
    """TRL's frozen weight beside current over trainer is not prime-rl's ratio of current over inference."""
    specs = ("trl/token_mask:clip_min=0.5,clip_max=2", "prime-rl/icepop:ratio_low=0.5,ratio_high=2")
    assert _same(*(_outcome(spec) for spec in specs))
    assert not _same(*(_outcome(spec, OFF_POLICY) for spec in specs))
