"""NeMo-RL's, OpenRLHF's and open-instruct's losses against autograd of the same losses written out plainly."""

from __future__ import annotations

import math

import pytest
import torch

from iscope.recipes.grammar import parse
from iscope.recipes.options import spell
from iscope.replay.outcome import replay_batch
from tests import test_losses
from tests.golden_replay import loss_and_gradient
from tests.reference import nemo_rl_losses, open_instruct_losses, openrlhf_losses
from tests.test_losses import assert_same, batch_of

NEMO = (
    ("none", {}),
    ("is", {}),
    ("tis", {"low": None, "high": 1.3}),
    ("tis", {"low": 0.8, "high": 1.2}),
    ("icepop", {"low": 0.6, "high": 1.7}),
    ("seq-mask-tis", {"low": 0.8, "high": 1.15}),
)
GSPO = {"sequence_level_importance_ratios": True, "token_level_loss": False}
NEMO_OPTIONS = (
    {},
    {"token_level_loss": False},
    GSPO,
    GSPO | {"ratio_clip_min": 0.1, "ratio_clip_max": 0.1},
    {"ratio_clip_max": 0.4, "ratio_clip_c": 1.2},
    {"use_cispo": True, "ratio_clip_max": 0.1},
    {"disable_ppo_ratio": True},
    {"force_on_policy_ratio": True, "token_level_loss": False},
    GSPO | {"force_on_policy_ratio": True},
    {"reference_policy_kl_penalty": 0.3},
    {"reference_policy_kl_penalty": 0.3, "reference_policy_kl_type": "k1", "use_on_policy_kl_approximation": True},
    {"reference_policy_kl_penalty": 0.3, "reference_policy_kl_type": "k2", "kl_input_clamp_value": 0.2},
    {"reference_policy_kl_penalty": 0.3, "kl_output_clamp_value": 0.01, "token_level_loss": False},
    {"reference_policy_kl_penalty": 0.3, "kl_output_clamp_value": None, "kl_input_clamp_value": None},
    {"seq_logprob_error_threshold": 1.45},
    {"seq_logprob_error_threshold": 1.45, "token_level_loss": False},
    {"positive_example_nll_weight": 0.3},
    {"positive_example_nll_weight": 2.0, "reference_policy_kl_penalty": 0.3, "seq_logprob_error_threshold": 1.45},
    GSPO | {"positive_example_nll_weight": 0.3},
)
OPENRLHF = (
    ("none", {}),
    ("tis", {"low": 0.8, "high": 1.2}),
    ("icepop", {"low": 0.6, "high": 1.7}),
    ("seq-mask-tis", {"low": 0.8, "high": 1.15}),
    ("token_binary_kl", {"low": -math.inf, "high": 0.01}),
    ("seq_binary_kl", {"low": -math.inf, "high": 0.04}),
    ("token_tv", {"low": -math.inf, "high": 0.05}),
    ("seq_tv", {"low": -math.inf, "high": 0.1}),
    ("gspo", {}),
)
OPENRLHF_OPTIONS = (
    {},
    {"token_level_loss": False},
    {"clip_eps_high": 0.4, "clip_eps_low": 0.1},
    {"dual_clip": 1.1},
)
RHO = (
    {},
    {"clamp_lower": 0.8, "clamp_upper": 1.2},
    {"clamp_upper": None, "mask_lower": 0.6, "mask_upper": 1.7},
    {"mask_lower": 0.8, "mask_upper": 1.15, "sequence_level": True},
    {"mask_lower": 0.3, "tv_divergence": True},
    {"mask_lower": 0.3, "tv_divergence": True, "sequence_level": True},
)
OPEN_INSTRUCT = (
    {},
    {"loss_fn": "cispo", "clip_higher": 0.1},
    {"loss_denominator": 100.0, "clip_lower": 0.1},
    *({"beta": 0.3, "kl_estimator": estimator} for estimator in "0123"),
)
LENGTHS = (5, 0, 1, 9, 3, 30)
EDGES = {
    "nothing": ((), ()),
    "only empty": ((0, 0), (1.0, -1.0)),
    "one token": ((1,), (-2.0,)),
    "no advantage": ((3, 2), (0.0, 0.0)),
}


def random_rollouts(seed, lengths, advantages=(1.5, -1.0, -0.7, 0.0, 2.0, -0.3)):
    """Rollouts whose logprobs are all usable, with a reward of every sign."""
    policies = ("trainer", "inference", "current", "ref")
    return [
        rollout | {name: rollout[name] - 2.0 for name in policies} | {"reward": (1.0, -0.5, 0.0)[row % 3]}
        for row, rollout in enumerate(test_losses.random_rollouts(seed, lengths, advantages))
    ]


def differentiated(batch_loss, rollouts, **settings):
    leaves = [rollout | {"current": rollout["current"].clone().requires_grad_()} for rollout in rollouts]
    loss = batch_loss(leaves, **settings)
    if loss.requires_grad:
        loss.backward()
    nothing = torch.zeros(0, dtype=torch.float64)
    grads = [leaf["current"].grad for leaf in leaves]
    whole = [torch.zeros_like(leaf["current"]) if g is None else g for leaf, g in zip(leaves, grads, strict=True)]
    return float(loss.detach()), torch.cat([nothing, *whole])


def text_of(prefix, mode, bounds, options):
    values = ",".join(f"{name}={spell(value)}" for name, value in (bounds | options).items())
    return f"{prefix}/{mode}:{values}" if values else f"{prefix}/{mode}"


def nemo_text(mode, bounds, options):
    named = {"ratio_min": bounds["low"], "ratio": bounds["high"]} if bounds else {}
    return text_of("nemo-rl", mode, named, options)


def openrlhf_text(scheme, bounds, options):
    named = {"delta": bounds["high"]} if bounds.get("low") == -math.inf else bounds
    return text_of("openrlhf", scheme, named, options)


def settings_of_nemo():
    for mode, bounds in NEMO:
        for options in NEMO_OPTIONS:
            if not (mode == "seq-mask-tis" and "sequence_level_importance_ratios" in options):
                yield mode, bounds, options


@pytest.mark.parametrize(("mode", "bounds", "options"), list(settings_of_nemo()))
def test_nemo_rl(mode, bounds, options):
    rollouts = random_rollouts(len(options) + 20, LENGTHS)
    found = loss_and_gradient(batch_of(rollouts), parse(nemo_text(mode, bounds, options)))
    expected = differentiated(nemo_rl_losses.batch_loss, rollouts, mode=mode, **bounds, **options)
    assert float(expected[1].abs().max()) > 0
    assert_same(found, expected)


def test_the_logprob_error_drops_some_rollouts_only():
    rollouts = random_rollouts(1, LENGTHS)
    options = nemo_rl_losses.DEFAULTS | {"seq_logprob_error_threshold": 1.45}
    assert 2 <= sum(nemo_rl_losses.in_batch(rollout, options) for rollout in rollouts) < len(rollouts)


@pytest.mark.parametrize("options", OPENRLHF_OPTIONS)
@pytest.mark.parametrize(("scheme", "bounds"), OPENRLHF)
def test_openrlhf(scheme, bounds, options):
    rollouts = random_rollouts(len(options), LENGTHS)
    found = loss_and_gradient(batch_of(rollouts), parse(openrlhf_text(scheme, bounds, options)))
    expected = differentiated(openrlhf_losses.batch_loss, rollouts, scheme=scheme, **bounds, **options)
    assert float(expected[1].abs().max()) > 0
    assert_same(found, expected)


@pytest.mark.parametrize("options", OPENRLHF_OPTIONS)
def test_openrlhf_gspo_without_correction(options):
    rollouts = random_rollouts(5, LENGTHS)
    options = options | {"policy_loss_type": "gspo"}
    found = loss_and_gradient(batch_of(rollouts), parse(openrlhf_text("none", {}, options)))
    assert_same(found, differentiated(openrlhf_losses.batch_loss, rollouts, **options))


@pytest.mark.parametrize("options", OPEN_INSTRUCT)
@pytest.mark.parametrize("rho", RHO)
def test_open_instruct(rho, options):
    rollouts = random_rollouts(len(options), LENGTHS)
    found = loss_and_gradient(batch_of(rollouts), parse(text_of("open-instruct", "rho", rho, options)))
    expected = differentiated(open_instruct_losses.batch_loss, rollouts, **rho, **options)
    assert float(expected[1].abs().max()) > 0
    assert_same(found, expected)


@pytest.mark.parametrize("options", [{}, {"use_vllm_logprobs": True}, {"beta": 0.1, "use_vllm_logprobs": True}])
def test_open_instruct_without_correction(options):
    rollouts = random_rollouts(9, LENGTHS)
    found = loss_and_gradient(batch_of(rollouts), parse(text_of("open-instruct", "none", {}, options)))
    assert_same(found, differentiated(open_instruct_losses.batch_loss, rollouts, corrects=False, **options))


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("rho", RHO)
def test_open_instruct_edges(rho, edge):
    rollouts = random_rollouts(3, *EDGES[edge]) if EDGES[edge][0] else []
    batch = batch_of(rollouts) if rollouts else batch_of(random_rollouts(3, (0,), (1.0,)))
    found = loss_and_gradient(batch, parse(text_of("open-instruct", "rho", rho, {})))
    assert_same(found, differentiated(open_instruct_losses.batch_loss, rollouts, **rho))


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize(("mode", "bounds"), NEMO)
@pytest.mark.parametrize("options", [{}, {"positive_example_nll_weight": 0.3}])
def test_nemo_rl_edges(mode, bounds, options, edge):
    rollouts = random_rollouts(3, *EDGES[edge]) if EDGES[edge][0] else []
    batch = batch_of(rollouts) if rollouts else batch_of(random_rollouts(3, (0,), (1.0,)))
    found = loss_and_gradient(batch, parse(nemo_text(mode, bounds, options)))
    assert_same(found, differentiated(nemo_rl_losses.batch_loss, rollouts, mode=mode, **bounds, **options))


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize(("scheme", "bounds"), OPENRLHF)
def test_openrlhf_edges(scheme, bounds, edge):
    rollouts = random_rollouts(3, *EDGES[edge]) if EDGES[edge][0] else []
    batch = batch_of(rollouts) if rollouts else batch_of(random_rollouts(3, (0,), (1.0,)))
    found = loss_and_gradient(batch, parse(openrlhf_text(scheme, bounds, {})))
    assert_same(found, differentiated(openrlhf_losses.batch_loss, rollouts, scheme=scheme, **bounds))


@pytest.mark.parametrize("name", ["nemo-rl/icepop", "openrlhf/seq-mask-tis", "open-instruct/rho"])
def test_all_masked(name):
    batch = batch_of(random_rollouts(3, (4, 2), (1.0, -1.0)))
    batch = type(batch)(**(vars(batch) | {"loss_mask": torch.zeros(6, dtype=torch.bool)}))
    loss, gradient = loss_and_gradient(batch, parse(name))
    assert (loss, gradient.numel()) == (0.0, 0)


def overflowing():
    """A rollout whose ratio product leaves float64, and one that stays."""
    long = torch.full((80,), -11.0, dtype=torch.float64)
    short = torch.full((2,), -1.0, dtype=torch.float64)
    rollouts = [{"inference": long, "trainer": long + 10.0}, {"inference": short, "trainer": short + 0.1}]
    return [
        rollout | {"current": rollout["trainer"], "ref": rollout["trainer"], "advantage": 1.0} for rollout in rollouts
    ]


@pytest.mark.parametrize(
    ("spec", "weight"),
    [("is:", 0.0), ("tis:none,2,", 0.0), ("tis:0.5,2,", 0.5), ("icepop:0,2,", 0.0), ("icepop:0.5,2,", 0.0)],
)
def test_a_product_that_overflows_weighs_nothing_before_the_bounds_are_applied(spec, weight):
    recipe = parse(f"nemo-rl/{spec}sequence_level_importance_ratios=true,token_level_loss=false")
    outcome = replay_batch(batch_of(overflowing()), recipe, "exclude")
    assert outcome.weight[:80].unique().tolist() == [weight]
    assert outcome.weight[80:].tolist() == pytest.approx([math.exp(0.2)] * 2)
    assert bool(outcome.keep[:80].all()) == (spec != "icepop:0.5,2,")
