"""ms-swift's corrections, filters, losses and metrics against what its own code (4.6.0) gave."""

from __future__ import annotations

import json

import pytest
import torch

from iscope import replay
from iscope.recipes.grammar import parse
from iscope.recipes.options import spell
from iscope.replay.aggregation import Totals, divisors
from iscope.replay.correction import correct
from iscope.replay.groups import Groups
from iscope.replay.outcome import loss_tokens_of, replay_batch
from iscope.replay.view import token_view
from tests.golden_cases import cases, golden_batch, relative_error, report_of
from tests.golden_replay import on_loss_tokens

VARIANTS = ("", "_extreme")
COLUMNS = ("trainer_logprobs", "inference_logprobs", "current_logprobs", "ref_logprobs")
# Options of the cases that change no weight, decision or loss that is replayed.
UNREAD = ("log_rollout_offpolicy_metrics",)
# What ms-swift's code calls them, and the names that a run logs.
LOGGED = {
    "clipping/low_clip_mean": "clip_ratio/low_mean",
    "clipping/low_clip_min": "clip_ratio/low_min",
    "clipping/high_clip_mean": "clip_ratio/high_mean",
    "clipping/high_clip_max": "clip_ratio/high_max",
    "clipping/region_clip_mean": "clip_ratio/region_mean",
    "clipping/cispo_clip_ratio": "cispo_clip_ratio",
}


def recipe_of(spec: dict) -> str:
    options = {name: value for name, value in spec["options"].items() if name not in UNREAD}
    mode = options.pop("rollout_importance_sampling_mode", None)
    threshold = options.pop("rollout_importance_sampling_threshold", None)
    given = {} if mode is None else {"threshold": threshold}
    given |= {"max_completion_length": 64} | options
    return f"ms-swift/{mode or 'none'}:" + ",".join(f"{name}={spell(value)}" for name, value in given.items())


def replayable(golden, variant, kind):
    return cases(golden, f"ms_swift{variant}", kind)


def test_every_case_is_replayed(golden):
    count = sum(len(replayable(golden, v, kind)) for v in VARIANTS for kind in ("correction", "filter", "loss"))
    assert count == 142


@pytest.mark.parametrize("variant", VARIANTS)
def test_weights(golden, variant):
    batch = golden_batch(golden, variant, COLUMNS)
    view = token_view(batch, batch.loss_mask)
    found = replayable(golden, variant, "correction")
    assert len(found) == 21
    for case in found:
        weight = correct(view, parse(recipe_of(case["spec"]))).applied_weight(view)
        expected = on_loss_tokens(case, "weights", batch) if case["weights"] else [1.0] * len(weight)
        assert relative_error(weight.tolist(), expected) <= 1e-12, case["spec"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_off_policy_sequence_masking(golden, variant):
    batch = golden_batch(golden, variant, COLUMNS)
    view = token_view(batch, batch.loss_mask)
    found = replayable(golden, variant, "filter")
    assert len(found) == 5
    for case in found:
        kept = correct(view, parse(recipe_of(case["spec"]))).keep_rollout.tolist()
        assert kept == [row[0] for row in case["keep"]], case["spec"]
        assert case["case"] == found[-1]["case"] or not all(kept)


@pytest.mark.parametrize("variant", VARIANTS)
def test_loss_and_gradient(golden, variant):
    batch = golden_batch(golden, variant, COLUMNS)
    found = replayable(golden, variant, "loss")
    assert len(found) == (46 if variant == "" else 44)
    one_batch = torch.zeros(len(batch), dtype=torch.int64)
    for case in found:
        recipe = parse(recipe_of(case["spec"]))
        outcome = replay_batch(batch, recipe, "exclude")
        counted = loss_tokens_of(batch) if recipe.loss.denominator.counts_dropped else outcome.loss_tokens
        groups = Groups().numbers(batch.columns, one_batch)
        totals = Totals.zeros(1).add(counted, one_batch, None, groups)
        divisor = divisors(recipe.loss, outcome.loss_tokens, one_batch, totals, groups)
        gradient = outcome.score / outcome.segments.expand(divisor)
        assert relative_error([float((outcome.loss / divisor).sum())], case["loss"]) <= 1e-12, case["spec"]
        assert relative_error(gradient.tolist(), on_loss_tokens(case, "grad", batch)) <= 1e-12, case["spec"]
        everywhere = torch.tensor([x for row in case["grad"] for x in row])
        assert not everywhere[~batch.loss_mask].any()


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_replay_of_the_dump_gives_the_loss(golden, variant):
    batch = golden_batch(golden, variant, COLUMNS)
    masked = [c for c in replayable(golden, variant, "loss") if c["spec"]["options"]["off_policy_sequence_mask_delta"]]
    assert {case["spec"]["options"]["loss_type"] for case in masked} == {"grpo", "dapo", "bnpo"}
    for case in masked:
        [loss] = case["loss"]
        found = replay(batch, recipe=recipe_of(case["spec"]), precision="float64").loss["all"]
        assert found == pytest.approx(loss, rel=1e-12), case["spec"]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", ["correction", "loss"])
def test_metrics(golden, variant, kind):
    found = replayable(golden, variant, kind)
    report = report_of(golden_batch(golden, variant, COLUMNS), [recipe_of(case["spec"]) for case in found])
    for case, recipe in zip(found, report.recipes, strict=True):
        logged = {LOGGED.get(name, name): value for name, value in json.loads(case["metrics"]).items()}
        extra = {name.partition("/")[0] for name in set(recipe.framework) - set(logged)}
        # The cases of a correction have no loss; without a mode the others were logged only if asked for.
        unlogged = {"rollout_correction"} if recipe.spec.startswith("ms-swift/none") else set()
        assert extra <= (unlogged if kind == "loss" else {"clip_ratio"}), recipe.spec
        for name, value in logged.items():
            exact = name.startswith("rollout_correction/") and not name.endswith("clipped_frac")
            tolerance = 1e-12 if exact else 1e-6  # the others are sums of float32 indicators
            assert recipe.framework[name].value == pytest.approx(value, rel=tolerance, abs=1e-15), (recipe.spec, name)
