"""A recipe as another framework's settings: the same weights come out, or the reason why there is no such setting."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from iscope.errors import UsageError
from iscope.recipes import parse
from iscope.recipes.configs import TABLES
from iscope.recipes.configs.emit import emit
from iscope.recipes.configs.essence import essence
from iscope.replay.outcome import replay_batch
from tests.contract_cases import batch_of, exact, ragged
from tests.test_equalities import EQUAL, UNEQUAL

BATCH = exact(batch_of(ragged(seed=11, lengths=(9, 4, 1, 12, 0, 7, 2, 15) * 4, spread=0.6)))
ON_POLICY = replace(BATCH, current_logprobs=None)
# The first of equal rows for every framework, the others for TRL. A bound of 1e-9 is one, and few rows have it.
CASES = [
    (spec, name)
    for rows in EQUAL.values()
    for place, spec in enumerate(row for row in rows if "1e-9" not in row)
    for name in (TABLES if not place else ("trl",))
]


def written(spec, name):
    try:
        return emit(parse(spec), name)
    except UsageError:
        return None


def counterparts(spec, name):
    """Rows that compute the same as this one in another framework, of the same policies."""
    rows = next(rows for rows in EQUAL.values() if spec in rows)
    pair = essence(parse(spec)).pair
    return [row for row in rows if row.startswith(f"{name}/") and essence(parse(row)).pair == pair]


@pytest.mark.parametrize(("spec", "name"), CASES)
def test_what_is_written_weighs_and_keeps_alike(spec, name):
    found = written(spec, name)
    if found is None:
        assert not counterparts(spec, name) or parse(spec).row.loss is not None
        return
    one, two = (replay_batch(BATCH, recipe, "exclude") for recipe in (parse(spec), found.recipe))
    assert torch.allclose(one.weight, two.weight, rtol=1e-12, atol=1e-12)
    assert one.keep.equal(two.keep)


def test_the_table_of_equal_rows_has_enough_to_find():
    assert sum(1 for spec, name in CASES if counterparts(spec, name) and parse(spec).row.loss is None) > 50


def test_rows_that_only_look_alike_are_told_apart():
    for one, other in UNEQUAL.values():
        name = other.partition("/")[0]
        if name in TABLES:
            found = written(one, name)
            assert found is None or found.recipe.spec != parse(other).spec


def test_the_loss_comes_along_where_it_can():
    assert emit(parse("verl/rollout_is:token,2,clip_ratio_high=0.28"), "skyrl").values == {
        "trainer.algorithm.off_policy_correction.tis_ratio_type": "token",
        "trainer.algorithm.off_policy_correction.token_tis_ratio_clip_high": 2.0,
        "trainer.algorithm.off_policy_correction.sequence_tis_ratio_clip_high": 5.0,
        "trainer.algorithm.off_policy_correction.sequence_mask_metric": None,
        "trainer.algorithm.off_policy_correction.outlier_token_is_threshold_low": None,
        "trainer.algorithm.off_policy_correction.outlier_token_is_threshold_high": None,
        "trainer.algorithm.off_policy_correction.token_mask_is_threshold_low": None,
        "trainer.algorithm.off_policy_correction.token_mask_is_threshold_high": None,
        "trainer.algorithm.policy_loss_type": "dual_clip",
        "trainer.algorithm.eps_clip_high": 0.28,
    }


def test_a_loss_without_counterpart_is_said():
    notes = emit(parse("trl/token_truncate:clip_max=2"), "verl").notes
    assert notes[0] == "written as verl/rollout_is:level=token,threshold=2,batch_normalize=false"
    assert any("verl's own loss, vanilla, stands for the dapo" in note for note in notes)
    assert any("verl/rollout_is limits log-ratios" in note for note in notes)


REFUSED = {
    ("trl/token_mask:0.5,2", "prime-rl"): "prime-rl/icepop:ratio_low=0.5,ratio_high=2, but its ratio is current over "
    "inference, not trainer over inference",
    (
        "trl/token_mask:0.5,2",
        "skyrl",
    ): "skyrl/token_mask:token_low=0.5,token_high=2, but its weight is 1, not the token",
    ("trl/sequence_mask:clip_max=3", "verl"): "verl/rollout_is:level=sequence,threshold=1e-09_3",
    ("geometric_mask:0.8,1.25", "trl"): "it does not reject rollouts by the geometric mean of the token ratios outside "
    "0.8..1.25",
    ("verl/rollout_is:token,2,true", "trl"): "it does not divide the weights by their mean over the batch",
    ("prime-rl/ipo", "verl"): "it does not reject tokens by the probability difference outside -0.3..0.3",
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_written_and_what_comes_nearest(case):
    spec, name = case
    with pytest.raises(UsageError) as error:
        emit(parse(spec), name)
    assert f"{name} has no settings that do what {parse(spec).spec} does. Nearest is {name}/" in str(error.value)
    assert REFUSED[case] in str(error.value)


def test_one_ratio_frameworks_write_each_other():
    found = emit(parse("prime-rl/icepop:ratio_low=0.2,ratio_high=5"), "verl")
    assert found.recipe.spec.startswith("verl/bypass_pg:level=token,is_threshold=0.2_5,")
    one, two = (replay_batch(BATCH, recipe, "exclude") for recipe in (parse("prime-rl/icepop"), found.recipe))
    assert torch.allclose(one.score, two.score, rtol=1e-6, atol=1e-12)


def test_hydra_gets_quotes_where_it_would_read_a_number():
    lines = emit(
        parse(
            "verl/rollout_correction:level=token,is_threshold=0.5_2,option=token_k1,seq_max_k2,rs_threshold=0.6_1.6,2.5"
        ),
        "verl",
    ).lines
    assert "algorithm.rollout_correction.rollout_is_threshold=\"'0.5_2'\"" in lines
    assert "algorithm.rollout_correction.rollout_rs=\"'token_k1,seq_max_k2'\"" in lines


def test_an_unknown_framework():
    with pytest.raises(UsageError, match="no configuration of a framework 'verrl'"):
        emit(parse("none"), "verrl")
