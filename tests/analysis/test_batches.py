"""Batches: figures over every scope against replays of the same scope and against counts over plain lists."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
import torch

from iscope import analyze, replay
from iscope.analysis.figures.gradient import figures
from iscope.analysis.recipe_rows import recipe_rows
from iscope.analysis.report import build_report
from iscope.analysis.rows import scored_rows
from iscope.engines import local
from iscope.engines.scopes import scoped
from iscope.errors import DataError, UsageError
from iscope.ledger.plan import Plan
from iscope.ledger.store import load
from iscope.recipes.grammar import parse
from iscope.replay.groups import Groups
from tests.golden_cases import golden_batch
from tests.reference import denominators

SCOPES = ("all", "step", 7)
COLUMNS = ("trainer_logprobs", "inference_logprobs", "current_logprobs", "ref_logprobs")
# A recipe, and the same loss uncorrected.
RECIPES = [
    ("verl/rollout_is:level=token,threshold=1.2,batch_normalize=true", "verl/none"),
    ("verl/rollout_is:level=sequence,threshold=1.5,batch_normalize=true", "verl/none"),
    ("verl/rollout_rs:option=token_k1,threshold=0.8_1.2,use_v1=false", "verl/none:use_v1=false"),
    ("verl/rollout_rs:option=token_k1,threshold=0.8_1.2", "verl/none"),
    (
        "verl/rollout_rs:option=seq_mean_k1,threshold=0.97_1.03,loss_agg_mode=seq-mean-token-mean",
        "verl/none:loss_agg_mode=seq-mean-token-mean",
    ),
    ("verl/rollout_rs:option=token_k2,threshold=0.01,loss_agg_mode=token-sum", "verl/none:loss_agg_mode=token-sum"),
    (
        "verl/rollout_is:level=token,threshold=1.1,loss_agg_mode=seq-mean-token-sum,global_batch_size=5",
        "verl/none:loss_agg_mode=seq-mean-token-sum,global_batch_size=5",
    ),
    (
        "skyrl/token_mask:token_low=0.8,token_high=1.2,loss_reduction=prompt_mean",
        "skyrl/none:loss_reduction=prompt_mean",
    ),
    ("slime/tis:tis_clip=1.1", "slime/none"),
    ("slime/mis:tis_level=token,tis_upper_bound=1.1", "slime/none"),
    ("slime/mis:rs_level=geometric,rs_lower_bound=0.97,rs_upper_bound=1.03", "slime/none"),
    ("areal/m2po:m2_threshold=0.01", "areal/none"),
    ("ms-swift/none:off_policy_sequence_mask_delta=0.01", "ms-swift/none"),
    ("ms-swift/none:off_policy_sequence_mask_delta=0.01,loss_type=real", "ms-swift/none:loss_type=real"),
    ("openrlhf/seq-mask-tis:0.97,1.03,token_level_loss=false", "openrlhf/none:token_level_loss=false"),
    ("nemo-rl/seq-mask-tis:0.97,1.03", "nemo-rl/none"),
    ("nemo-rl/none:seq_logprob_error_threshold=1.1,token_level_loss=false", "nemo-rl/none:token_level_loss=false"),
    ("nemo-rl/none:seq_logprob_error_threshold=1.1", "nemo-rl/none"),
    ("trl/token_mask:clip_min=0.8,clip_max=1.2,loss_type=grpo", "trl/none:loss_type=grpo"),
]


def sizes(batch, spec, scope):
    """g of each rollout, over what a replay of the scope divides by: abs(coefficient) (1 - p) of its tokens."""
    coefficients = replay(batch, recipe=spec, batch=scope, precision="float64").table["coefficient"].to_pylist()
    found = []
    for row, (start, stop) in zip(coefficients, pairwise(batch.offsets.tolist()), strict=True):
        logprobs = batch.current_logprobs[start:stop].tolist()
        found.append(math.fsum(abs(c) * (1 - math.exp(lp)) for c, lp in zip(row, logprobs, strict=True) if c))
    return np.array(found)


@pytest.fixture(scope="module")
def batch(golden):
    return golden_batch(golden, "", COLUMNS)


@pytest.mark.parametrize("scope", SCOPES)
def test_gradient_left_is_that_of_the_replays(batch, scope):
    entries = analyze(batch, recipes=[spec for spec, _ in RECIPES], batch=scope, precision="float64").recipes
    advantage = batch.advantage.numpy()
    for (spec, plain), entry in zip(RECIPES, entries, strict=True):
        kept, base = sizes(batch, spec, scope), sizes(batch, plain, scope)
        left = entry.figures["gradient_left"]
        found = {
            "all": kept.sum() / base.sum(),
            "positive": kept[advantage > 0].sum() / base[advantage > 0].sum(),
            "heaviest_rollout": kept.max() / kept.sum(),
        }
        for name, expected in found.items():
            assert left[name].value == pytest.approx(expected, rel=1e-9), (spec, name)
        effective = entry.figures["effective_batch_size"]
        assert effective["value"] == pytest.approx(kept.sum() ** 2 / (kept**2).sum(), rel=1e-9), spec
        assert effective["base"].value == pytest.approx(base.sum() ** 2 / (base**2).sum(), rel=1e-9), spec


def test_batches_matter(batch):
    """Each of these figures would be another one if the scope were not heeded."""
    specs = [spec for spec, _ in RECIPES if "token-sum" not in spec and "global_batch_size" not in spec]
    one, each = (analyze(batch, recipes=specs, batch=scope, precision="float64").recipes for scope in ("all", 7))
    for spec, *entries in zip(specs, one, each, strict=True):
        found = [entry.figures["effective_batch_size"]["value"] for entry in entries]
        assert found[0] != pytest.approx(found[1], rel=1e-6), spec


# A recipe, how its framework divides, which rollouts count, whether dropped tokens do, what is added to a count, and
# what its filters drop.
COUNTED = [
    ("verl/rollout_rs:option=token_k1,threshold=0.8_1.2,use_v1=false", "token-mean", "all", False, 0.0, "tokens"),
    ("verl/rollout_rs:option=token_k1,threshold=0.8_1.2", "token-mean", "all", True, 0.0, "tokens"),
    (
        "verl/rollout_rs:option=seq_mean_k1,threshold=0.97_1.03,loss_agg_mode=seq-mean-token-mean",
        "seq-mean-token-mean",
        "all",
        True,
        0.0,
        "rollouts",
    ),
    (
        "verl/rollout_rs:option=token_k1,threshold=0.8_1.2,loss_agg_mode=seq-mean-token-sum",
        "seq-mean-token-sum",
        "all",
        True,
        0.0,
        "tokens",
    ),
    (
        "verl/rollout_rs:option=token_k1,threshold=0.8_1.2,loss_agg_mode=token-sum",
        "token-sum",
        "all",
        True,
        0.0,
        "tokens",
    ),
    ("trl/token_mask:clip_min=0.8,clip_max=1.2,loss_type=grpo", "seq-mean-token-mean", "all", False, 0.0, None),
    ("trl/token_mask:clip_min=0.8,clip_max=1.2", "token-mean", "all", False, 0.0, None),
    ("openrlhf/icepop:0.97,1.03,token_level_loss=false", "seq-mean-token-mean", "filled", False, 0.0, None),
    (
        "nemo-rl/none:seq_logprob_error_threshold=1.1,token_level_loss=false",
        "seq-mean-token-mean",
        "undropped",
        False,
        1e-8,
        "rollouts",
    ),
    ("nemo-rl/none:seq_logprob_error_threshold=1.1", "token-mean", "undropped", False, 1e-8, "rollouts"),
    (
        "skyrl/token_mask:token_low=0.8,token_high=1.2,loss_reduction=prompt_mean",
        "prompt-mean",
        "all",
        False,
        0.0,
        None,
    ),
]


def counted(batch, found, spec, scope, drops):
    """The rollouts as plain lists; g before any division is taken from the ledger."""
    keeps = replay(batch, recipe=spec, precision="float64").table["keep"].to_pylist()
    sides = {}
    for side, logs in (("g", found.log_gradient), ("base", found.log_base_gradient)):
        total = np.exp(np.logaddexp(logs("positive"), logs("negative")))
        sides[side] = dict(zip(found.rows.frame["rollout_id"].to_list(), total.tolist(), strict=True))
    rollouts, masks = [], [batch.loss_mask[start:stop] for start, stop in pairwise(batch.offsets.tolist())]
    columns = batch.columns.iter_rows(named=True)
    for place, (keep, mask, row) in enumerate(zip(keeps, masks, columns, strict=True)):
        rejected, tokens = keep.count(False), int(mask.sum())
        gone = drops == "rollouts" and rejected > 0
        rollouts.append(
            {
                "loss_tokens": tokens,
                "left": 0 if gone else tokens - rejected if drops else tokens,
                "kept": keep.count(True),
                "gone": gone,
                "batch": {"all": 0, "step": row["step"]}.get(scope, place // 7),
                "group": row["group_id"],
                "g": sides["g"].get(row["rollout_id"], 0.0),
                "base": sides["base"].get(row["rollout_id"], 0.0),
            }
        )
    return rollouts


@pytest.mark.parametrize(("variant", "scope"), [("", "all"), ("_nan", "step"), ("_nan", 7)])
@pytest.mark.parametrize(("spec", "kind", "counts", "counts_dropped", "epsilon", "drops"), COUNTED)
def test_denominators_are_counted_as_the_framework_does(
    golden, variant, spec, kind, counts, counts_dropped, epsilon, drops, scope
):
    batch = golden_batch(golden, variant)
    plan = Plan((parse(spec),), precision="float64", batch=scope)
    ledger = local.run(scoped([batch], scope), plan)
    found = recipe_rows(ledger, scored_rows(ledger), 0)
    rollouts = counted(batch, found, spec, scope, drops)
    assert variant == "" or sum(r["loss_tokens"] for r in rollouts) > batch_scored(found)
    expected = denominators.left(rollouts, kind, counts, counts_dropped, epsilon)
    left = figures(found)["gradient_left"]
    for name, value in expected.items():
        assert left[name].value == pytest.approx(value, rel=1e-9), name


def batch_scored(found):
    return int(found.rows.n.sum())


def test_the_place_in_the_dump_is_told_whatever_the_layout(golden, tmp_path):
    """Batches of N rollouts in a row go by the dump's order, however it is cut into row groups and decoded."""
    frame = pl.read_parquet(golden / "rollouts.parquet")
    found = []
    for size in (2, 5, 32):
        path = tmp_path / f"{size}.parquet"
        frame.write_parquet(path, row_group_size=size)
        report = analyze(path, recipes=["verl/rollout_is:batch_normalize=true"], batch=7).to_dict()
        report.pop("provenance")
        found.append(report)
    assert found[0]["recipes"] == found[1]["recipes"] == found[2]["recipes"]
    assert found[0]["assumptions"] == found[1]["assumptions"]


@pytest.mark.parametrize(
    ("scope", "words"), [("all", "the whole dump"), ("step", "of each step"), (7, "7 consecutive")]
)
def test_the_scope_is_said_and_identifies_the_ledger(batch, scope, words):
    report = analyze(batch, recipes=["none"], batch=scope)
    assert sum(words in sentence and "one batch" in sentence for sentence in report.assumptions) == 1
    plan = report.provenance["plan"]
    assert plan["batch"] == scope
    others = {analyze(batch, recipes=["none"], batch=other).provenance["plan"]["fingerprint"] for other in ("all", 5)}
    assert (plan["fingerprint"] in others) == (scope == "all")


def test_a_saved_ledger_keeps_its_batches(batch, tmp_path):
    path = tmp_path / "run.ledger"
    report = analyze(batch, recipes=["verl/rollout_is:batch_normalize=true"], batch=7, ledger=path)
    again = build_report(load(path))
    assert again.recipes[0].to_dict() == report.recipes[0].to_dict()


def test_parts_with_batches_in_a_row_are_not_put_together(batch):
    plan = Plan((), batch=7)
    ledger = local.run(scoped([batch], 7), plan)
    with pytest.raises(
        UsageError, match="batches of 7 rollouts in a row are told apart only in a dump that is read as"
    ):
        ledger.merge(ledger)


def test_quantiles_of_weights_with_several_means_are_absent(batch):
    spec = "verl/rollout_is:level=token,threshold=1.2,batch_normalize=true"
    one, each = (analyze(batch, recipes=[spec], batch=scope).recipes[0].figures["applied"] for scope in ("all", "step"))
    assert one["p50"].value is not None
    assert each["p50"].value is None
    assert each["p50"].why


@pytest.mark.parametrize("scope", ["steps", 0, -1, True, 1.5])
def test_a_scope_that_is_none_is_refused(batch, scope):
    with pytest.raises(UsageError, match="The batch must be all, step or a number of rollouts from 1"):
        analyze(batch, batch=scope)


def test_a_step_that_is_missing_is_refused(batch):
    holed = replace(batch, columns=batch.columns.with_columns(step=pl.Series([None, *batch.columns["step"][1:]])))
    with pytest.raises(DataError, match="rollout r000: its step is null; with --batch step every rollout needs one"):
        analyze(holed, batch="step")
    with pytest.raises(DataError, match="step"):
        analyze(replace(batch, columns=batch.columns.drop("step")), batch="step")


def test_rollouts_without_a_group_are_groups_of_their_own():
    columns = pl.DataFrame({"group_id": ["a", None, "a", None, "b"]})
    places = torch.tensor([0, 0, 0, 0, 1])
    groups = Groups()
    assert groups.numbers(columns, places).tolist() == [0, 1, 0, 2, 3]
    assert groups.numbers(columns, places).tolist() == [0, 4, 0, 5, 3]
    assert groups.numbers(columns, places + 1).tolist() == [6, 7, 6, 8, 9]


def test_a_loss_over_groups_needs_them(batch):
    without = replace(batch, columns=batch.columns.drop("group_id"))
    for spec in ("skyrl/none:loss_reduction=prompt_mean", "ms-swift/none:loss_type=real"):
        entry = analyze(without, recipes=[spec]).recipes[0]
        assert "group_id" in entry.why
        with pytest.raises(DataError, match="there is no column 'group_id', which"):
            replay(without, recipe=spec)
