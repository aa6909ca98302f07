"""ms-swift's losses: autograd of the same written out plainly, edges, and what the ledger holds of them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch

from iscope.analysis.recipe_rows import recipe_rows
from iscope.analysis.report import build_report
from iscope.analysis.rows import scored_rows
from iscope.errors import UsageError
from iscope.ledger.plan import Plan
from iscope.ledger.screen import screen_of
from iscope.recipes import framework
from iscope.recipes.grammar import bind, parse
from iscope.replay.aggregation import Totals
from iscope.replay.correction import correct
from iscope.replay.dump_cuts import own_cuts
from iscope.replay.groups import Groups
from iscope.replay.losses import base_coefficient, loss_terms
from iscope.replay.outcome import divided, loss_tokens_of, replay_batch
from iscope.replay.view import token_view
from iscope.rollouts import RolloutBatch
from tests.golden_cases import golden_batch, ledger_of
from tests.ledger.test_screen_frameworks import test_the_screen_changes_no_figure as check_screen
from tests.reference.ms_swift_losses import batch_loss
from tests.test_losses import assert_same, batch_of, random_rollouts

TABLE = framework("ms-swift")
MODES = [
    ("none", {}),
    ("token_truncate", {"threshold": 1.2}),
    ("token_mask", {"threshold": 1.3}),
    ("sequence_truncate", {"threshold": 1.15}),
    ("sequence_mask", {"threshold": 1.15}),
]
LOSSES = [
    *({"loss_type": name} for name, _ in TABLE.losses),
    *({"importance_sampling_level": "sequence", "loss_type": name} for name in ("grpo", "cispo", "sapo", "fipo")),
    *({"importance_sampling_level": "sequence_token", "loss_type": name} for name in ("bnpo", "sapo", "fipo")),
    {"beta": 0.3, "delta": 1.1},
    {"beta": 0.3, "loss_type": "cispo", "epsilon_high": 5.0},
    {"off_policy_sequence_mask_delta": 0.05, "beta": 0.1},
    {"off_policy_sequence_mask_delta": 0.05, "loss_type": "bnpo", "importance_sampling_level": "sequence"},
    {"off_policy_sequence_mask_delta": 0.05, "loss_type": "dapo", "max_completion_length": 64},
    {"off_policy_sequence_mask_delta": 0.05, "loss_type": "dr_grpo", "max_completion_length": 64},
    {"loss_type": "real", "real_tau": 0.1, "off_policy_sequence_mask_delta": 0.05, "beta": 0.2},
    {"loss_type": "fipo", "delta": 1.3, "fipo_decay_rate": 2.0, "fipo_clip_high_only": False},
    {"loss_type": "fipo", "fipo_clip_range": None, "fipo_safety_threshold": 1.1, "off_policy_sequence_mask_delta": 0.0},
    {"loss_type": "fipo", "fipo_safety_threshold": None, "fipo_clip_range": 0.5, "beta": 0.1},
]
CASES = [pytest.param(mode, bounds, loss, id=f"{mode}-{i}") for mode, bounds in MODES for i, loss in enumerate(LOSSES)]


def drawn(seed, **shape):
    """Random rollouts whose logprobs lie below 0, as logprobs do."""
    return [
        {name: value if name == "advantage" else value - 1.5 for name, value in rollout.items()}
        for rollout in random_rollouts(seed, **shape)
    ]


def recipe_of(mode, options):
    row = next(row for row in TABLE.recipes if row.name == f"ms-swift/{mode}")
    return bind(row, TABLE, options)


def replayed(batch, recipe):
    """Loss of the batch and gradient of each loss token."""
    outcome, one_batch = replay_batch(batch, recipe, "exclude"), torch.zeros(len(batch), dtype=torch.int64)
    counted = loss_tokens_of(batch) if recipe.loss.denominator.counts_dropped else outcome.loss_tokens
    groups = Groups().numbers(batch.columns, one_batch) if recipe.loss.aggregation.by_group else None
    totals = Totals.zeros(1).add(counted, one_batch, None, groups)
    loss, gradient = divided(outcome, recipe, one_batch, totals, groups)
    return float(loss.sum()), gradient


def differentiated(rollouts, mode, options):
    leaves = [rollout | {"current": rollout["current"].clone().requires_grad_()} for rollout in rollouts]
    loss = batch_loss(leaves, mode=mode, **options)
    loss.backward()
    gradients = [torch.zeros_like(leaf["current"]) if (g := leaf["current"].grad) is None else g for leaf in leaves]
    return float(loss.detach()), torch.cat(gradients)


@pytest.mark.parametrize(("mode", "bounds", "loss"), CASES)
def test_against_autograd(mode, bounds, loss):
    recipe = recipe_of(mode, bounds | loss)
    for seed in (0, 1):
        rollouts = drawn(seed)
        expected = differentiated(rollouts, mode, bounds | loss)
        assert float(expected[1].abs().max()) > 0
        assert_same(replayed(batch_of(rollouts), recipe), expected)


def test_the_kl_term_is_limited():
    low = torch.full((1,), -40.0, dtype=torch.float64)
    for apart in (2.0, 5.0, 30.0, -5.0, -30.0):
        rollouts = [{"trainer": low, "inference": low, "current": low, "ref": low + apart, "advantage": 1.0}]
        recipe = recipe_of("none", {"beta": 0.1})
        assert_same(replayed(batch_of(rollouts), recipe), differentiated(rollouts, "none", {"beta": 0.1}))


def test_the_influence_counts_positions_outside_the_loss_mask():
    options = {"loss_type": "fipo", "fipo_decay_rate": 1.0, "fipo_clip_range": None}
    mask = [1, 0, 0, 1, 1, 0, 1, 1]
    [rollout] = drawn(5, lengths=(8,), advantages=(1.0,))
    current = rollout["current"].tolist()
    batch = RolloutBatch.from_lists(
        [rollout["trainer"].tolist()] * 2,
        [rollout["inference"].tolist()] * 2,
        [[0] * 8, mask],
        current_logprobs=[current, current],
        advantage=[1.0, 1.0],
    )
    places = [place for place, trains in enumerate(mask) if trains]
    part = {name: value[places] for name, value in rollout.items() if name != "advantage"}
    kept = part | {"advantage": 1.0, "positions": places}
    as_read = {name: value.float().double() for name, value in part.items()} | {"advantage": 1.0}
    found = replayed(batch, recipe_of("none", options))
    expected = differentiated([kept], "none", options)
    gapless = differentiated([as_read], "none", options)
    assert found[1].tolist() == pytest.approx(expected[1].tolist(), rel=1e-5)
    assert found[1].tolist() != pytest.approx(gapless[1].tolist(), rel=1e-2)


@pytest.mark.parametrize(("mode", "bounds", "loss"), CASES)
def test_the_ledger_holds_the_gradient(golden, mode, bounds, loss):
    batch = golden_batch(golden, "", ("trainer_logprobs", "inference_logprobs", "current_logprobs", "ref_logprobs"))
    recipe = recipe_of(mode, bounds | loss)
    ledger = ledger_of(batch, [recipe, parse("ms-swift/token_truncate:1.1")])
    rows = scored_rows(ledger)
    order = torch.tensor([batch.columns["rollout_id"].to_list().index(name) for name in rows.frame["rollout_id"]])
    view = token_view(batch, batch.loss_mask)
    view.cuts = own_cuts(view, [recipe], batch.columns)
    found = recipe_rows(ledger, rows, 0)
    kept = loss_terms(view, recipe, correct(view, recipe)).coefficient
    base = base_coefficient(view, recipe.loss)
    for logs, each in ((found.log_gradient, kept), (found.log_base_gradient, base)):
        total = np.exp(np.logaddexp(logs("positive"), logs("negative")))
        expected = view.segments.sum(each.abs() * view.uncertainty)[order].numpy()
        assert expected.max() > 0
        np.testing.assert_allclose(total, expected, rtol=1e-9, atol=1e-12 * expected.max(), err_msg=recipe.spec)


@pytest.mark.parametrize(("mode", "bounds", "loss"), CASES)
def test_the_screen_changes_no_figure(golden, monkeypatch, mode, bounds, loss):
    check_screen(golden, monkeypatch, recipe_of(mode, bounds | loss).spec)


def test_an_influence_has_no_quiet_band():
    plan = Plan(tuple(parse(f"ms-swift/{text}") for text in ("token_mask", "sequence_mask", "none:loss_type=fipo")))
    assert screen_of(plan).dense == {2}


NAMES = [row.name for row in TABLE.recipes]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("loss", [name for name, _ in TABLE.losses])
@pytest.mark.parametrize("masks", [[], [[]], [[0, 0], []]], ids=["no rollouts", "an empty one", "all masked"])
def test_without_loss_tokens(name, loss, masks):
    zeros = [[-1.0] * len(mask) for mask in masks]
    batch = RolloutBatch.from_lists(
        zeros,
        zeros,
        masks,
        current_logprobs=zeros,
        ref_logprobs=zeros,
        advantage=[1.0] * len(masks),
        columns=pl.DataFrame({"group_id": ["g"] * len(masks)}, schema={"group_id": pl.String}),
    )
    recipe = parse(f"{name}:loss_type={loss},beta=0.1")
    entry = build_report(ledger_of(batch, [recipe])).recipes[0]
    assert {figure.why for figure in entry.framework.values()} == {"no loss tokens"}
    total, gradient = replayed(batch, recipe)
    assert (total, gradient.tolist()) == (0.0, [])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_one_token_on_policy_keeps_its_score(name, advantage):
    one = [[-0.7]]
    batch = RolloutBatch.from_lists(one, one, [[1]], current_logprobs=one, ref_logprobs=one, advantage=[advantage])
    for loss in ("grpo", "dapo", "fipo", "sapo"):
        recipe = parse(f"{name}:loss_type={loss},importance_sampling_level=sequence_token,beta=0.1,tau_neg=1")
        assert replayed(batch, recipe)[1].tolist() == [pytest.approx(-advantage)]


def test_everything_rejected_leaves_nothing():
    rollouts = drawn(0, lengths=(4, 6), advantages=(1.0, -1.0))
    for rollout in rollouts:
        rollout["inference"] = rollout["trainer"] - 2
    for mode in ("token_mask", "sequence_mask"):
        loss, gradient = replayed(batch_of(rollouts), recipe_of(mode, {"beta": 0.3, "loss_type": "fipo"}))
        assert loss == 0
        assert not gradient.any()


@pytest.mark.parametrize("threshold", [0.9, 1.0])
@pytest.mark.parametrize("mode", ["sequence_truncate", "sequence_mask"])
def test_an_empty_rollout_has_ratio_one(mode, threshold):
    batch = RolloutBatch.from_lists([[-1.0] * 2] * 2, [[-0.5] * 2] * 2, [[1, 1], [0, 0]], advantage=[1.0, 1.0])
    entry = build_report(ledger_of(batch, [recipe_of(mode, {"threshold": threshold})])).recipes[0]
    assert entry.framework["rollout_correction/clipped_frac"].value == (0.5 if threshold < 1 else 0.0)


@pytest.mark.parametrize("side", ["trainer", "inference"])
def test_a_logprob_that_is_not_a_number_leaves_no_metric(side):
    lists = {"trainer": [[-0.5, -1.0]], "inference": [[-0.6, -0.9]]}
    lists[side] = [[float("nan"), -1.0]]
    batch = RolloutBatch.from_lists(lists["trainer"], lists["inference"], advantage=[1.0])
    entry = build_report(ledger_of(batch, [parse("ms-swift/token_truncate")])).recipes[0]
    assert {figure.why for figure in entry.framework.values()} == {
        "ms-swift's own is NaN: 1 loss tokens have a NaN logprob"
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ms-swift/token_mask:0", "threshold must be above 0"),
        ("ms-swift/none:loss_type=fipo,fipo_clip_range=0", "fipo_clip_range must be above 0"),
        ("ms-swift/none:loss_type=real,real_tau=0", "real_tau must be above 0"),
        ("ms-swift/none:tau_neg=0", "tau_neg must be above 0"),
    ],
)
def test_refusals(text, message):
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert message in str(caught.value)


def test_the_losses_read_their_own_options_only():
    assert parse("ms-swift/none:loss_type=cispo,delta=2,epsilon_high=5").unused == ("delta",)
    assert parse("ms-swift/none:loss_type=fipo,fipo_decay_rate=8,tau_pos=2").unused == ("tau_pos",)
    assert parse("ms-swift/none").needs == ()
    assert parse("ms-swift/none:loss_type=real").needs == ("advantage", "group_id")
    assert parse("ms-swift/none:beta=0.1,off_policy_sequence_mask_delta=0.1").needs == ("advantage", "ref_logprobs")
