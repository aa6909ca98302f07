"""The figures measured with the screen are those measured with every recipe on every token, and those of its loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import iscope.ledger.measure
from iscope.analysis.recipe_rows import recipe_rows
from iscope.analysis.rows import scored_rows
from iscope.ledger.measure import measure
from iscope.ledger.plan import Plan
from iscope.ledger.screen import Screen, screen_of
from iscope.recipes import framework
from iscope.recipes.grammar import parse
from iscope.replay.correction import correct
from iscope.replay.losses import base_coefficient, loss_terms
from iscope.replay.view import token_view
from tests.golden_cases import golden_batch, ledger_of
from tests.test_losses import batch_of, random_rollouts

COLUMNS = ("trainer_logprobs", "inference_logprobs", "current_logprobs", "ref_logprobs")
GSPO = "sequence_level_importance_ratios=true,token_level_loss=false"
SPECS = [
    *(row.name for name in ("nemo-rl", "openrlhf", "open-instruct") for row in framework(name).recipes),
    "nemo-rl/none:use_cispo=true",
    f"nemo-rl/none:{GSPO}",
    f"nemo-rl/is:{GSPO}",
    f"nemo-rl/tis:0.5,2,{GSPO}",
    f"nemo-rl/icepop:0.5,2,{GSPO}",
    "nemo-rl/tis:0.9,1.1,force_on_policy_ratio=true",
    "nemo-rl/icepop:0.5,5,disable_ppo_ratio=true,seq_logprob_error_threshold=1.2",
    "nemo-rl/seq-mask-tis:0.95,1.05,reference_policy_kl_penalty=0.1,ratio_clip_c=1.2",
    "openrlhf/none:policy_loss_type=gspo",
    "openrlhf/icepop:0.9,1.1,token_level_loss=false,dual_clip=1.5",
    "openrlhf/token_tv:0.3",
    "open-instruct/none:use_vllm_logprobs=true",
    "open-instruct/rho:0.9,1.1,0.5,5",
    "open-instruct/rho:mask_lower=0.5,mask_upper=1.5,sequence_level=true,loss_fn=cispo",
    "open-instruct/rho:mask_lower=0.05,mask_upper=1.5,tv_divergence=true",
]


def batches(golden):
    lengths, advantages = (50, 0, 1, 90, 300, 7, 40), (1.5, -1.0, -0.7, 0.0, 2.0, -0.3, -2.0)
    for spread in (0.003, 0.05, 0.5):
        yield batch_of(random_rollouts(7, lengths, advantages, spread=spread))
        yield batch_of(random_rollouts(8, lengths, advantages, spread=spread), current=False)
    yield golden_batch(golden, "", COLUMNS)
    yield golden_batch(golden, "_extreme", COLUMNS)


def columns_of(batch, plan):
    measured = measure(batch, plan)
    return measured.columns | {f"histogram {name}": torch.tensor(v) for name, v in measured.histograms.items()}


@pytest.mark.parametrize("spec", SPECS)
def test_the_screen_changes_no_figure(golden, monkeypatch, spec):
    plan = Plan((parse(spec),), precision="float64")
    everything = Screen(*(getattr(screen_of(plan), name) for name in ("low", "high")), frozenset({0}))
    for batch in batches(golden):
        with_screen = columns_of(batch, plan)
        with monkeypatch.context() as patch:
            patch.setattr(iscope.ledger.measure, "screen_of", lambda _: everything)
            dense = columns_of(batch, plan)
        assert set(with_screen) == set(dense)
        for name, values in dense.items():
            found, expected = with_screen[name].numpy(), values.numpy()
            if expected.dtype.kind != "f":
                np.testing.assert_array_equal(found, expected, err_msg=name)
            else:
                scale = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
                np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * scale, err_msg=name)


def test_some_recipes_use_the_screen():
    plan = Plan(tuple(map(parse, SPECS)))
    assert 0 < len(screen_of(plan).dense) < len(SPECS)


@pytest.mark.parametrize("current", [True, False])
@pytest.mark.parametrize("spec", SPECS)
def test_the_gradient_is_that_of_the_loss(spec, current):
    lengths, advantages = (5, 0, 1, 9, 30, 7, 40), (1.5, -1.0, -0.7, 0.0, 2.0, -0.3, -2.0)
    batch = batch_of(random_rollouts(7, lengths, advantages, spread=0.03), current)
    recipe = parse(spec)
    ledger = ledger_of(batch, [recipe])
    rows = scored_rows(ledger)
    order = torch.tensor([batch.columns["rollout_id"].to_list().index(name) for name in rows.frame["rollout_id"]])
    view, found = token_view(batch, None), recipe_rows(ledger, rows, 0)
    kept = loss_terms(view, recipe, correct(view, recipe)).coefficient
    base = base_coefficient(view, recipe.loss)
    for logs, each in ((found.log_gradient, kept), (found.log_base_gradient, base)):
        total = np.exp(np.logaddexp(logs("positive"), logs("negative")))
        expected = view.segments.sum(each.abs() * view.uncertainty)[order].numpy()
        assert expected.max() > 0
        np.testing.assert_allclose(total, expected, rtol=1e-9, atol=1e-12 * expected.max(), err_msg=recipe.spec)
