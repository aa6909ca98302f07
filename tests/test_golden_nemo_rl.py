"""NeMo-RL's corrections, filter, loss and metrics against what its own code (git 7ea279ab) gave."""

from __future__ import annotations

import json

import pytest
import torch

from iscope import replay
from iscope.ledger.measure import take_rollouts
from iscope.recipes.grammar import parse
from iscope.recipes.options import spell
from iscope.replay.correction import correct
from iscope.replay.view import token_view
from tests.golden_cases import cases, golden_batch, relative_error, report_of
from tests.golden_replay import loss_and_gradient, on_loss_tokens

VARIANTS = ("", "_extreme")
COLUMNS = ("trainer_logprobs", "inference_logprobs", "current_logprobs", "ref_logprobs")
KINDS = {"correction": 23, "filter": 6, "loss": 45}
# No figure of a report, which has no values of losses.
NO_FIGURE = "loss"
THEIR_NAMES = {"num_masked_seqs": "num_masked_seqs_by_logprob_error"}
# A float64 mean of exp(d) - 1 - d, or of terms of both signs, is off by up to 2 eps where the terms are of size 1.
THEIR_ROUNDING = 2 * torch.finfo(torch.float64).eps


def recipe_of(spec: dict) -> str:
    given = dict(spec["options"])
    kind = given.pop("truncated_importance_sampling_type", None)
    corrects = given.pop("use_importance_sampling_correction", False)
    low, high = (given.pop(f"truncated_importance_sampling_ratio{end}", None) for end in ("_min", ""))
    options = {"ratio_min": low, "ratio": high} if kind else {}
    assert not given.pop("use_kl_in_reward", False)
    options |= {"seq_logprob_error_threshold": spec.get("seq_logprob_error_threshold")} | given
    text = ",".join(f"{name}={spell(value)}" for name, value in options.items())
    return f"nemo-rl/{kind or ('is' if corrects else 'none')}:{text}"


def golden_cases(golden, variant: str, *kinds: str) -> list[dict]:
    found = [case for kind in kinds for case in cases(golden, f"nemo_rl{variant}", kind)]
    assert len(found) == sum(KINDS[kind] for kind in kinds)
    return found


@pytest.mark.parametrize("variant", VARIANTS)
def test_weights(golden, variant):
    batch = golden_batch(golden, variant, COLUMNS)
    view = token_view(batch, batch.loss_mask)
    weighted = [case for case in golden_cases(golden, variant, "correction") if case["weights"]]
    assert len(weighted) == 21
    for case in weighted:
        found = correct(view, parse(recipe_of(case["spec"]))).applied_weight(view).tolist()
        assert relative_error(found, on_loss_tokens(case, "weights", batch)) <= 1e-12, case["spec"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_filter(golden, variant):
    batch = golden_batch(golden, variant, COLUMNS)
    view = token_view(batch, batch.loss_mask)
    for case in golden_cases(golden, variant, "filter"):
        keep = correct(view, parse(recipe_of(case["spec"] | case["spec"]["options"]))).keep_rollout
        expected = [row[0] for row in case["keep"]]
        assert expected == ([True] * len(batch) if keep is None else keep.tolist()), case["spec"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_loss_and_gradient(golden, variant):
    batch = golden_batch(golden, variant, COLUMNS)
    for case in golden_cases(golden, variant, "loss"):
        loss, gradient = loss_and_gradient(batch, parse(recipe_of(case["spec"])))
        assert relative_error([loss], case["loss"]) <= 1e-12, case["spec"]
        assert relative_error(gradient.tolist(), on_loss_tokens(case, "grad", batch)) <= 1e-12, case["spec"]
        everywhere = torch.tensor([x for row in case["grad"] for x in row])
        assert not everywhere[~batch.loss_mask].any()


@pytest.mark.parametrize("variant", VARIANTS)
def test_metrics(golden, variant):
    batch = golden_batch(golden, variant, COLUMNS)
    found = golden_cases(golden, variant, *KINDS)
    report = report_of(batch, [recipe_of(case["spec"]) for case in found])
    absent = 0
    for case, recipe in zip(found, report.recipes, strict=True):
        logged = json.loads(case["metrics"])
        for name, value in logged.items():
            if name == NO_FIGURE:
                assert name not in recipe.framework
                continue
            given = recipe.framework[THEIR_NAMES.get(name, name)]
            if case["spec"]["options"].get("disable_ppo_ratio") and name.startswith("probs_ratio"):
                assert given.value is None
                absent += 1
            else:
                assert given.value == pytest.approx(value, rel=1e-12, abs=THEIR_ROUNDING), (recipe.spec, name)
        assert ("is_oob_ratio" in logged) == ("is_oob_ratio" in recipe.framework)
    assert absent == 4 * 6


@pytest.mark.parametrize("aggregation", ["true", "false"])
def test_a_replay_of_the_dump_leaves_dropped_rollouts_out_of_every_count(golden, aggregation):
    batch = golden_batch(golden, "", COLUMNS)
    text = f"nemo-rl/icepop:0.5,2,seq_logprob_error_threshold=1.05,token_level_loss={aggregation}"
    loss, _ = loss_and_gradient(batch, parse(text))
    kept = correct(token_view(batch, batch.loss_mask), parse(text)).keep_rollout
    assert 0 < int(kept.sum()) < len(batch)
    assert replay(batch, recipe=text, precision="float64").loss["all"] == pytest.approx(loss, rel=1e-12)
    only_kept = take_rollouts(batch, kept.nonzero().squeeze(1))
    without = text.replace("seq_logprob_error_threshold=1.05,", "")
    assert loss_and_gradient(only_kept, parse(without))[0] == pytest.approx(loss, rel=1e-12)
