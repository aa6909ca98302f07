"""SkyRL's and slime's losses: autograd of the same written out plainly, edges, and what the ledger holds of them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from iscope.analysis.recipe_rows import recipe_rows
from iscope.analysis.report import build_report
from iscope.analysis.rows import scored_rows
from iscope.errors import UsageError
from iscope.recipes import framework
from iscope.recipes.grammar import bind, parse
from iscope.recipes.skyrl_losses import UNCORRECTED
from iscope.replay.aggregation import Totals, counted_tokens, divisors
from iscope.replay.correction import correct
from iscope.replay.groups import Groups
from iscope.replay.losses import loss_terms
from iscope.replay.normalisation import BatchMeans, normalised
from iscope.replay.view import token_view
from iscope.rollouts import RolloutBatch
from tests.golden_cases import golden_batch, ledger_of
from tests.reference import skyrl_losses, slime_losses
from tests.test_losses import assert_same, batch_of, random_rollouts

SKYRL = [
    {},
    {"tis_ratio_type": "token", "token_tis_ratio_clip_high": 1.3},
    {"tis_ratio_type": "sequence", "sequence_tis_ratio_clip_high": 1.5, "sequence_mask_metric": "product"},
    {"tis_ratio_type": "token", "token_tis_ratio_clip_high": -1.0},
    {"tis_ratio_type": "sequence", "sequence_tis_ratio_clip_high": -0.7, "sequence_mask_metric": "product"},
    {"token_mask_is_threshold_low": 0.7, "token_mask_is_threshold_high": 1.4, "tis_ratio_type": "sequence"},
    {
        "outlier_token_is_threshold_low": 0.4,
        "outlier_token_is_threshold_high": 2.4,
        "token_mask_is_threshold_low": 0.7,
        "token_mask_is_threshold_high": 1.4,
        "sequence_mask_metric": "geometric",
        "geo_mask_low": 0.8,
        "geo_mask_high": 1.1,
    },
]
SKYRL_LOSSES = [
    {"policy_loss_type": "regular", "eps_clip_high": 0.28},
    {"policy_loss_type": "dual_clip", "clip_ratio_c": 1.1},
    {"policy_loss_type": "sapo", "loss_reduction": "sequence_mean", "tau_pos": 2.0},
    {"policy_loss_type": "gspo", "loss_reduction": "sequence_mean", "eps_clip_low": 0.02},
    {"policy_loss_type": "cispo", "cispo_eps_clip_low": 0.1, "cispo_eps_clip_high": 0.1},
    {"policy_loss_type": "cispo", "cispo_anchor": "rollout", "loss_reduction": "seq_mean_token_sum_norm"},
    {"policy_loss_type": "rollout_is", "eps_clip_low": 0.5, "eps_clip_high": 0.5},
    {"policy_loss_type": "dppo", "delta_low": 0.05, "delta_high": 0.02},
    {"policy_loss_type": "dppo", "dppo_type": "binary_kl", "delta_low": 0.005, "delta_high": 0.01},
    {"policy_loss_type": "regular", "loss_reduction": "prompt_mean"},
    {"policy_loss_type": "importance_sampling"},
    {"policy_loss_type": "cross_entropy"},
]
SLIME = [
    ("none", {}),
    ("tis", {"tis_clip": 1.3, "tis_clip_low": 0.7}),
    ("icepop", {"tis_clip": 1.4, "tis_clip_low": 0.6}),
    ("mis", {}),
    ("mis", {"tis_mode": "clip", "tis_lower_bound": None, "tis_upper_bound": 1.2, "rs_veto_threshold": 0.4}),
    ("mis", {"tis_mode": "mask", "use_rs": False}),
    ("mis", {"tis_level": "sequence", "rs_level": "geometric", "rs_lower_bound": 0.8}),
    ("mis", {"tis_level": "geometric", "tis_batch_normalize": False, "rs_level": "sequence", "rs_upper_bound": 1.5}),
]
SLIME_LOSSES = [
    {"eps_clip_high": 0.28},
    {"eps_clip_c": 1.1, "calculate_per_token_loss": True},
    {"advantage_estimator": "gspo", "eps_clip": 0.02},
    {"advantage_estimator": "cispo", "use_opsm": True},
    {"use_opsm": True, "opsm_delta": 0.05, "use_rollout_logprobs": True},
    {"use_kl_loss": True, "kl_loss_coef": 0.3, "kl_loss_type": "low_var_kl", "use_unbiased_kl": True},
    {"use_kl_loss": True, "kl_loss_coef": 0.3, "kl_loss_type": "k1"},
    {"use_kl_loss": True, "kl_loss_coef": 0.3, "kl_loss_type": "k2", "advantage_estimator": "gspo"},
]


def drawn(seed):
    """Random rollouts whose logprobs lie below 0, as logprobs do."""
    return [
        {name: value - 1.5 if name != "advantage" else value for name, value in rollout.items()}
        for rollout in random_rollouts(seed)
    ]


def recipe_of(name, options):
    table = framework(name.partition("/")[0])
    row = next(row for row in table.recipes if row.name == name)
    known = {option.name for option in (*row.options, *table.loss_options)}
    return bind(row, table, {name: value for name, value in options.items() if name in known})


def corrected(batch, recipe):
    view = token_view(batch, None)
    correction = correct(view, recipe)
    if recipe.weight.normalises:
        means, one_batch = BatchMeans(recipe), torch.zeros(len(batch), dtype=torch.int64)
        means.add(view, correction, one_batch)
        correction = normalised(view, correction, means.means()[one_batch])
    return view, correction


def replayed(batch, recipe):
    view, correction = corrected(batch, recipe)
    terms, one_batch = loss_terms(view, recipe, correction), torch.zeros(len(batch), dtype=torch.int64)
    lengths = view.segments.lengths
    groups = Groups().numbers(batch.columns, one_batch)
    totals = Totals.zeros(1).add(counted_tokens(recipe.loss, lengths), one_batch, None, groups)
    divisor = divisors(recipe.loss, lengths, one_batch, totals, groups)
    return float((view.segments.sum(terms.loss()) / divisor).sum()), terms.score() / view.segments.expand(divisor)


def differentiated(rollouts, loss):
    leaves = [rollout | {"current": rollout["current"].clone().requires_grad_()} for rollout in rollouts]
    value = loss(leaves)
    value.backward()
    return float(value.detach()), torch.cat([leaf["current"].grad for leaf in leaves])


def skyrl_case(correction, loss):
    if loss["policy_loss_type"] in UNCORRECTED:
        correction = {}
    name = "skyrl/off_policy_correction" if correction else "skyrl/none"
    options = {"max_seq_len": 64} | correction | loss
    return recipe_of(name, options), partial(skyrl_losses.batch_loss, **options)


def slime_case(correction, options):
    return recipe_of(f"slime/{correction}", options), partial(slime_losses.batch_loss, correction=correction, **options)


CASES = [
    *(
        pytest.param(*skyrl_case(c, loss), id=f"skyrl-{i}-{j}")
        for i, c in enumerate(SKYRL)
        for j, loss in enumerate(SKYRL_LOSSES)
    ),
    *(
        pytest.param(*slime_case(c, options | loss), id=f"slime-{i}-{j}")
        for i, (c, options) in enumerate(SLIME)
        for j, loss in enumerate(SLIME_LOSSES)
    ),
]


@pytest.mark.parametrize(("recipe", "loss"), CASES)
def test_against_autograd(recipe, loss):
    for seed in (0, 1):
        rollouts = drawn(seed)
        expected = differentiated(rollouts, loss)
        assert float(expected[1].abs().max()) > 0
        assert_same(replayed(batch_of(rollouts), recipe), expected)


@pytest.mark.parametrize(("recipe", "loss"), CASES)
def test_the_ledger_holds_the_gradient(recipe, loss):
    batch = batch_of(drawn(3))
    ledger = ledger_of(batch, [recipe])
    rows = scored_rows(ledger)
    order = [batch.columns["rollout_id"].to_list().index(name) for name in rows.frame["rollout_id"]]
    view, correction = corrected(batch, recipe)
    coefficient = loss_terms(view, recipe, correction).coefficient
    expected = view.segments.sum(coefficient.abs() * view.uncertainty)[torch.tensor(order)].numpy()
    found = recipe_rows(ledger, rows, 0)
    total = np.exp(np.logaddexp(found.log_gradient("positive"), found.log_gradient("negative")))
    np.testing.assert_allclose(total, expected, rtol=1e-9, atol=1e-12 * expected.max())


NAMES = [row.name for name in ("skyrl", "slime", "miles") for row in framework(name).recipes]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("masks", [[], [[]], [[0, 0], []]], ids=["no rollouts", "an empty one", "all masked"])
def test_without_loss_tokens(name, masks):
    zeros = [[-1.0] * len(mask) for mask in masks]
    batch = RolloutBatch.from_lists(
        zeros, zeros, masks, current_logprobs=zeros, ref_logprobs=zeros, advantage=[1.0] * len(masks)
    )
    entry = build_report(ledger_of(batch, [parse(name)])).recipes[0]
    assert entry.framework
    for metric, figure in entry.framework.items():
        assert figure.value in (None, 0.0), metric
        assert figure.value == 0.0 or figure.why, metric


@pytest.mark.parametrize("name", NAMES)
def test_a_nan_logprob_leaves_no_metric(golden, name):
    batch = golden_batch(golden, "_nan", ("trainer_logprobs", "inference_logprobs", "current_logprobs"))
    entry = build_report(ledger_of(batch, [parse(name)])).recipes[0]
    assert entry.framework
    for metric, figure in entry.framework.items():
        assert figure.value is None, metric
        assert "loss tokens have a NaN logprob" in figure.why, metric


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_one_token_on_policy_keeps_its_score(name, advantage):
    one = [[-0.7]]
    batch = RolloutBatch.from_lists(one, one, [[1]], current_logprobs=one, ref_logprobs=one, advantage=[advantage])
    assert replayed(batch, parse(name))[1].tolist() == [pytest.approx(-advantage)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("skyrl/tis:loss_type=importance_sampling", "SkyRL ignores the correction there; take skyrl/none"),
        (
            "skyrl/none:loss_reduction=seq_mean_token_sum_norm",
            "with loss_reduction=seq_mean_token_sum_norm max_seq_len must be set",
        ),
        ("slime/mis:tis_level=geometric", "tis_level must not be geometric"),
        ("slime/mis:tis_low=3", "tis_low must be below tis_high"),
    ],
)
def test_refused(text, message):
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert message in str(caught.value)
