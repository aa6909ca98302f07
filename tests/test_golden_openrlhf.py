"""OpenRLHF's corrections, losses and metrics against what its own code (0.11.2) gave."""

from __future__ import annotations

import json

import pytest
import torch

from iscope import replay
from iscope.errors import UsageError
from iscope.recipes.grammar import parse
from iscope.recipes.options import spell
from iscope.replay.correction import correct
from iscope.replay.view import token_view
from tests.golden_cases import cases, golden_batch, relative_error, report_of
from tests.golden_replay import loss_and_gradient, on_loss_tokens

VARIANTS = ("", "_extreme")
COLUMNS = ("trainer_logprobs", "inference_logprobs", "current_logprobs")
RATIO_MODES = {("token", "clip"): "tis", ("token", "mask"): "icepop", ("seq", "mask"): "seq-mask-tis"}
# Sums of a float32 indicator.
INDICATORS = {"is_filter_ratio", "ppo_clip_ratio"}


def recipe_of(spec: dict) -> str:
    given = dict(spec["options"])
    level, mode, gating = (given.pop(f"is_correction_{name}") for name in ("level", "mode", "gating"))
    low, high = given.pop("is_correction_threshold")
    if level == "off":
        name = "none"
    elif given["policy_loss_type"] == "gspo":
        name = "gspo"
    elif gating == "ratio":
        name, given = RATIO_MODES[level, mode], {"low": low, "high": high} | given
    else:
        assert low == 0
        name, given = f"{level}_{gating}", {"delta": high} | given
    return f"openrlhf/{name}:" + ",".join(f"{option}={spell(value)}" for option, value in given.items())


@pytest.mark.parametrize("variant", VARIANTS)
def test_weights(golden, variant):
    batch = golden_batch(golden, variant, COLUMNS)
    view = token_view(batch, batch.loss_mask)
    found = cases(golden, f"openrlhf{variant}", "correction")
    assert len(found) == 25
    for case in found:
        weight = correct(view, parse(recipe_of(case["spec"]))).applied_weight(view)
        expected = on_loss_tokens(case, "weights", batch) if case["weights"] else [1.0] * len(weight)
        assert relative_error(weight.tolist(), expected) <= 1e-12, case["spec"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_loss_and_gradient(golden, variant):
    batch = golden_batch(golden, variant, COLUMNS)
    found = cases(golden, f"openrlhf{variant}", "loss")
    assert len(found) == 21
    for case in found:
        loss, gradient = loss_and_gradient(batch, parse(recipe_of(case["spec"])))
        assert relative_error([loss], case["loss"]) <= 1e-12, case["spec"]
        assert relative_error(gradient.tolist(), on_loss_tokens(case, "grad", batch)) <= 1e-12, case["spec"]
        everywhere = torch.tensor([x for row in case["grad"] for x in row])
        assert not everywhere[~batch.loss_mask].any()


@pytest.mark.parametrize("variant", VARIANTS)
def test_metrics(golden, variant):
    batch = golden_batch(golden, variant, COLUMNS)
    found = [case for kind in ("correction", "loss") for case in cases(golden, f"openrlhf{variant}", kind)]
    report = report_of(batch, [recipe_of(case["spec"]) for case in found])
    for case, recipe in zip(found, report.recipes, strict=True):
        logged = json.loads(case["metrics"] or "{}")
        only_of_losses = {"ppo_kl", "ppo_clip_ratio"}
        assert set(recipe.framework) == set(logged) | only_of_losses
        for name, value in logged.items():
            tolerance = 1e-6 if name in INDICATORS else 1e-12
            assert recipe.framework[name].value == pytest.approx(value, rel=tolerance, abs=1e-16), (recipe.spec, name)


@pytest.mark.parametrize("mode", ["tis", "icepop", "seq-mask-tis", "token_binary_kl", "seq_tv"])
def test_gspo_is_refused_where_it_would_ignore_the_bounds(mode):
    with pytest.raises(UsageError, match=r"must not be gspo.*openrlhf/gspo"):
        parse(f"openrlhf/{mode}:policy_loss_type=gspo")


def test_a_rollout_without_loss_tokens_counts_as_rejected_only_at_the_sequence_level(golden):
    batch = golden_batch(golden, "", COLUMNS)
    names = ["openrlhf/seq-mask-tis:0,1e9", "openrlhf/icepop:0,1e9"]
    sequence, token = (recipe.framework["is_filter_ratio"].value for recipe in report_of(batch, names).recipes)
    assert (sequence, token) == (1 / 32, 0)


def test_a_replay_of_the_dump_leaves_rollouts_without_loss_tokens_out_of_the_mean(golden):
    batch = golden_batch(golden, "", COLUMNS)
    text = "openrlhf/tis:token_level_loss=false"
    loss, _ = loss_and_gradient(batch, parse(text))
    assert replay(batch, recipe=text, precision="float64").loss["all"] == pytest.approx(loss, rel=1e-12)
