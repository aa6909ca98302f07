"""Losses and their closed-form gradients against torch's autograd of the same losses written out plainly."""

from __future__ import annotations

import math
from dataclasses import replace

import polars as pl
import pytest
import torch

from iscope.errors import UsageError
from iscope.recipes.grammar import parse
from iscope.recipes.options import spell
from iscope.replay.aggregation import Totals, divisors
from iscope.replay.correction import correct
from iscope.replay.losses import base_coefficient, loss_terms
from iscope.replay.view import token_view
from iscope.rollouts import RolloutBatch
from tests.reference.losses import batch_loss

LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "vespo", "luspo")
MODES = (("none", None, None), ("token_mask", 0.6, 1.7), ("token_truncate", None, 1.3), ("sequence_mask", 0.4, 2.5))
OPTIONS = (
    {},
    {"epsilon_high": 0.4},
    {"delta": 1.5},
    {"delta": 1.1},
    {"beta": 0.3},
    {"beta": 0.3, "use_bias_correction_kl": False},
    {"off_policy_mask_threshold": 0.05, "beta": 0.1},
    {"sapo_temperature_pos": 2.0, "sapo_temperature_neg": 0.7, "vespo_k_pos": 1.0, "vespo_lambda_neg": 0.5},
)


def random_rollouts(seed=0, lengths=(5, 0, 1, 9, 3, 7), advantages=(1.5, -1.0, -0.7, 0.0, 2.0, -0.3), spread=0.4):
    generator = torch.Generator().manual_seed(seed)
    found = []
    for length, advantage in zip(lengths, advantages, strict=True):
        trainer = -torch.rand(length, generator=generator, dtype=torch.float64) * 3 - 0.1
        noise = spread * torch.randn(3, length, generator=generator, dtype=torch.float64)
        others = dict(zip(("inference", "current", "ref"), trainer + noise, strict=True))
        found.append({"trainer": trainer, "advantage": advantage} | others)
    return found


def batch_of(rollouts, current=True):
    def flat(name):
        return torch.cat([rollout[name] for rollout in rollouts])

    lengths = [len(rollout["trainer"]) for rollout in rollouts]
    batch = RolloutBatch.from_lists([[0.0] * n for n in lengths], [[0.0] * n for n in lengths])
    return RolloutBatch(
        offsets=batch.offsets,
        trainer_logprobs=flat("trainer"),
        inference_logprobs=flat("inference"),
        current_logprobs=flat("current") if current else None,
        ref_logprobs=flat("ref"),
        advantage=torch.tensor([rollout["advantage"] for rollout in rollouts], dtype=torch.float64),
        columns=batch.columns.with_columns(
            pl.Series("reward", [rollout.get("reward") for rollout in rollouts], dtype=pl.Float64),
            group_id=pl.int_range(pl.len()) // 3,
        ),
    )


def replayed(batch, text):
    """Loss of the batch and gradient of each token."""
    recipe = parse(text)
    view = token_view(batch, None)
    terms = loss_terms(view, recipe, correct(view, recipe))
    one_batch = torch.zeros(len(batch), dtype=torch.int64)
    lengths = view.segments.lengths
    divisor = divisors(recipe.loss, lengths, one_batch, Totals.zeros(1).add(lengths, one_batch))
    loss = (view.segments.sum(terms.loss()) / divisor).sum()
    return float(loss), terms.score() / view.segments.expand(divisor)


def differentiated(rollouts, **settings):
    """The same of the plain loss, by autograd."""
    leaves = [rollout | {"current": rollout["current"].clone().requires_grad_()} for rollout in rollouts]
    loss = batch_loss(leaves, **settings)
    if loss.requires_grad:
        loss.backward()
    gradients = [leaf["current"].grad for leaf in leaves]
    return float(loss.detach()), torch.cat(
        [
            torch.zeros(len(r["current"]), dtype=torch.float64) if g is None else g
            for r, g in zip(leaves, gradients, strict=True)
        ]
    )


def spelled(mode, low, high, options):
    bounds = {} if mode == "none" else {"clip_min": low, "clip_max": high}
    text = ",".join(f"{name}={spell(value)}" for name, value in (bounds | options).items())
    return f"trl/{mode}:{text}" if text else f"trl/{mode}"


def assert_same(found, expected):
    scale = max(float(expected[1].abs().max()) if expected[1].numel() else 0.0, 1e-300)
    assert found[0] == pytest.approx(expected[0], rel=1e-11, abs=1e-13)
    assert float((found[1] - expected[1]).abs().max() if expected[1].numel() else 0.0) <= 1e-11 * scale


CASES = [
    pytest.param(loss_type, level, mode, id=f"{loss_type}-{level}-{mode[0]}")
    for loss_type in LOSS_TYPES
    for level in ("token", "sequence")
    for mode in MODES
    if not (loss_type == "vespo" and mode[0].startswith("sequence"))
]


@pytest.mark.parametrize(("loss_type", "level", "mode"), CASES)
def test_against_autograd(loss_type, level, mode):
    name, low, high = mode
    for seed, options in enumerate(OPTIONS):
        rollouts = random_rollouts(seed)
        settings = {"loss_type": loss_type, "importance_sampling_level": level} | options
        found = replayed(batch_of(rollouts), spelled(*mode, settings))
        expected = differentiated(rollouts, loss_type=loss_type, level=level, mode=name, low=low, high=high, **options)
        assert float(expected[1].abs().max()) > 0
        assert_same(found, expected)


def rollouts_at(ratio, advantage):
    """One token whose current/trainer ratio is exactly this, a float that exp and log keep."""
    zero = torch.zeros(1, dtype=torch.float64)
    return [
        {"trainer": zero, "inference": zero, "current": zero + math.log(ratio), "ref": zero, "advantage": advantage}
    ]


@pytest.mark.parametrize("advantage", [1.0, -1.0, 0.0])
@pytest.mark.parametrize(
    ("ratio", "options"),
    [
        (2.0, {"epsilon_high": 1.0}),
        (0.5, {"epsilon": 0.5}),
        (2.0, {"delta": 2.0}),
        (2.0, {"delta": 2.0, "epsilon_high": 1.0}),
        (2.0, {"delta": 1.5, "epsilon_high": 1.0}),
        (0.5, {"delta": 0.5, "epsilon": 0.5}),
        (2.0, {}),
        (0.5, {}),
        (4.0, {"delta": 3.0}),
    ],
)
def test_at_the_bounds(ratio, options, advantage):
    rollouts = rollouts_at(ratio, advantage)
    assert float(rollouts[0]["current"].exp()) == ratio
    found = replayed(batch_of(rollouts), spelled("none", None, None, options))
    assert_same(found, differentiated(rollouts, **options))


def test_off_policy_masking_keeps_its_threshold():
    rollouts = random_rollouts(lengths=(2, 2), advantages=(-1.0, -1.0))
    for rollout, drift in zip(rollouts, (0.25, 0.5), strict=True):
        rollout["inference"] = torch.tensor([-0.5, -1.0], dtype=torch.float64)
        rollout["current"] = rollout["inference"] - drift
    batch = batch_of(rollouts)
    kept = [
        correct(view, parse(f"trl/none:off_policy_mask_threshold={limit}")).keep_rollout.tolist()
        for view in [token_view(batch, None)]
        for limit in (0.25, 0.5, 0.125)
    ]
    assert kept == [[True, False], [True, True], [False, False]]


def test_off_policy_masking_needs_advantages_and_the_kl_term_the_reference():
    assert parse("trl/none").needs == ()
    assert parse("trl/none:off_policy_mask_threshold=0.1").needs == ("advantage",)
    assert parse("trl/token_mask:beta=0.1").needs == ("ref_logprobs",)
    assert parse("trl/token_mask:beta=0.1,off_policy_mask_threshold=0.1").needs == ("advantage", "ref_logprobs")


def test_off_policy_masking_with_advantages_per_token():
    rollouts = random_rollouts(lengths=(4, 4), advantages=(-1.0, 1.0))
    for rollout in rollouts:
        rollout["current"] = rollout["inference"] - 1
    advantage = torch.tensor([-1.0, 0.5, -1, 0, 2, -1, -0.5, 1]).double()
    view = token_view(replace(batch_of(rollouts), advantage=advantage, advantage_per_token=True), None)
    kept = correct(view, parse("trl/none:off_policy_mask_threshold=0.5")).keep_rollout
    assert kept.tolist() == [False, True]


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_degenerate_batches(loss_type, level):
    empty = torch.zeros(0, dtype=torch.float64)
    nothing = {"trainer": empty, "inference": empty, "current": empty, "ref": empty, "advantage": 1.0}
    settings = {"loss_type": loss_type, "importance_sampling_level": level, "beta": 0.1}
    for rollouts in ([nothing, nothing], [nothing, *random_rollouts(lengths=(1,), advantages=(-2.0,)), nothing]):
        found = replayed(batch_of(rollouts), spelled("token_mask", 0.5, 2.0, settings))
        expected = differentiated(
            rollouts, loss_type=loss_type, level=level, beta=0.1, mode="token_mask", low=0.5, high=2.0
        )
        assert_same(found, expected)
        assert not any(map(math.isnan, [found[0], *found[1].tolist()]))


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
def test_everything_masked(loss_type):
    rollouts = random_rollouts(lengths=(4, 6), advantages=(1.0, -1.0))
    for rollout in rollouts:
        rollout["inference"] = rollout["trainer"] + 2
    loss, gradient = replayed(batch_of(rollouts), spelled("token_mask", 0.5, 2.0, {"loss_type": loss_type}))
    if loss_type == "vespo":  # a token of weight 0 counts as 1e-8 there
        assert 0 < float(gradient.abs().max()) < 1e-12
    else:
        assert loss == 0
        assert not gradient.any()


@pytest.mark.parametrize("loss_type", LOSS_TYPES)
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_without_current_logprobs_the_ratio_is_one(loss_type, level):
    rollouts = [rollout | {"current": rollout["trainer"]} for rollout in random_rollouts()]
    for options in ({}, {"delta": 0.9}, {"epsilon_high": -0.1}):
        text = spelled(
            "token_truncate", None, 1.5, {"loss_type": loss_type, "importance_sampling_level": level} | options
        )
        assert_same(replayed(batch_of(rollouts, current=False), text), replayed(batch_of(rollouts), text))


@pytest.mark.parametrize("mode", ["sequence_truncate", "sequence_mask"])
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("loss_type", [name for name in LOSS_TYPES if name != "vespo"])
def test_a_weight_per_rollout_multiplies_the_gradient_of_the_base(loss_type, level, mode):
    recipe = parse(f"trl/{mode}:clip_max=1.5,loss_type={loss_type},importance_sampling_level={level}")
    assert recipe.loss.linear_in_weight
    view = token_view(batch_of(random_rollouts(3)), None)
    correction = correct(view, recipe)
    base = base_coefficient(view, recipe.loss)
    assert torch.allclose(
        loss_terms(view, recipe, correction).coefficient, base * correction.applied_weight(view), rtol=1e-13, atol=0
    )


def test_vespo_is_not_linear_in_the_weight():
    recipe = parse("trl/token_truncate:clip_max=1.5,loss_type=vespo")
    assert not recipe.loss.linear_in_weight
    view = token_view(batch_of(random_rollouts(3)), None)
    correction = correct(view, recipe)
    weighted = base_coefficient(view, recipe.loss) * correction.applied_weight(view)
    assert not torch.allclose(loss_terms(view, recipe, correction).coefficient, weighted, rtol=1e-2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "trl/sequence_mask:loss_type=vespo",
            "trl/sequence_mask: loss_type must not be vespo, but loss_type is vespo; TRL takes it with token_mask and "
            "token_truncate only.",
        ),
        (
            "trl/none:loss_type=sapo,sapo_temperature_neg=0",
            "trl/none: sapo_temperature_neg must be above 0, but sapo_temperature_neg is 0.",
        ),
        (
            "trl/none:max_completion_length=-1",
            "trl/none: max_completion_length must be above 0, but max_completion_length is -1.",
        ),
    ],
)
def test_refusals(text, message):
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_options_that_the_loss_type_does_not_read_are_accepted_and_said():
    assert parse("trl/none:loss_type=cispo,delta=2,epsilon_high=5").unused == ("delta",)
    assert parse("trl/token_mask:vespo_k_pos=1,max_completion_length=64").unused == (
        "vespo_k_pos",
        "max_completion_length",
    )
    assert parse("trl/token_mask:loss_type=dr_grpo,max_completion_length=64,delta=2").unused == ()
