"""verl's recipes in the ledger: the screen changes nothing, and weights are normalised as on the tokens themselves."""

from __future__ import annotations

import math

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
from iscope.replay.losses import loss_terms
from iscope.replay.usable import usable
from iscope.replay.view import scored_view
from tests.golden_cases import golden_batch, ledger_of, report_of
from tests.test_golden_verl import COLUMNS, corrected
from tests.test_losses import batch_of, random_rollouts

LENGTHS, ADVANTAGES = (50, 0, 1, 90, 300, 7, 40), (1.5, -1.0, -0.7, 0.0, 2.0, -0.3, -2.0)
LOSSES = [name for name, _ in framework("verl").losses if name not in ("vanilla", "dro")]
REJECTION = "option=token_k1,seq_max_k2,rs_threshold=0.7_1.6,0.3"
NORMALISED = [
    f"verl/rollout_correction:level={level},is_threshold={bound},batch_normalize=true,loss_type={loss}{rejection}"
    for level in ("token", "sequence")
    for bound in ("1.2", "0.7_1.5")
    for loss in ("vanilla", "gspo", "cispo", "gpg")
    for rejection in ("", f",{REJECTION}")
]
SPECS = [
    *(row.name for row in framework("verl").recipes),
    *(f"verl/rollout_is:level=token,threshold=1.3,loss_type={name}" for name in LOSSES),
    *(f"verl/rollout_correction:token,0.6_1.5,false,{REJECTION},loss_type={name}" for name in LOSSES),
    "verl/rollout_rs:token_k2,0.05,loss_type=dro,dro_beta=0.2",
    "verl/rollout_rs:token_k1,1.1",
    "verl/rollout_rs:token_k3,0.02,clip_ratio_c=1.1",
    *NORMALISED[::3],
]


def batches(golden):
    for spread in (0.003, 0.05, 0.5):
        yield batch_of(random_rollouts(7, LENGTHS, ADVANTAGES, spread=spread))
        yield batch_of(random_rollouts(8, LENGTHS, ADVANTAGES, spread=spread), current=False)
    yield golden_batch(golden, "", COLUMNS)
    yield golden_batch(golden, "_extreme", COLUMNS)


def columns_of(batch, plan):
    measured = measure(batch, plan)
    return measured.columns | {f"histogram {name}": torch.tensor(v) for name, v in measured.histograms.items()}


@pytest.mark.parametrize("spec", SPECS)
def test_the_screen_changes_no_figure(golden, monkeypatch, spec):
    plan = Plan((parse(spec),), precision="float64")
    screen = screen_of(plan)
    for batch in batches(golden):
        with_screen = columns_of(batch, plan)
        with monkeypatch.context() as patch:
            patch.setattr(iscope.ledger.measure, "screen_of", lambda _: Screen(screen.low, screen.high, frozenset({0})))
            dense = columns_of(batch, plan)
        assert set(with_screen) == set(dense)
        for name, values in dense.items():
            found, expected = with_screen[name].numpy(), values.numpy()
            if expected.dtype.kind != "f":
                np.testing.assert_array_equal(found, expected, err_msg=name)
            else:
                scale = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
                np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * scale, err_msg=name)


def test_recipes_that_act_far_from_a_ratio_of_one_use_the_screen():
    plan = Plan(tuple(map(parse, SPECS)))
    screened = {SPECS[index] for index in range(len(SPECS)) if index not in screen_of(plan).dense}
    for name in ("verl/decoupled_token_is", "verl/rollout_rs:token_k1,1.1", "verl/none"):
        assert name in screened
    assert not any("gspo" in name or "geo_mean" in name or "bypass_ppo" in name for name in screened)


def replayed(golden, spec):
    """For each dump: the ledger's rows of a recipe, and view, correction and gradient on the tokens themselves."""
    recipe = parse(spec)
    for batch in (batch_of(random_rollouts(7, LENGTHS, ADVANTAGES, spread=0.3)), golden_batch(golden, "", COLUMNS)):
        ledger = ledger_of(batch, [recipe])
        rows = scored_rows(ledger)
        order = [batch.columns["rollout_id"].to_list().index(name) for name in rows.frame["rollout_id"]]
        view, _ = scored_view(batch, usable(batch), "exclude")
        correction = corrected(view, recipe)
        size = loss_terms(view, recipe, correction).coefficient.abs() * view.uncertainty
        yield recipe_rows(ledger, rows, 0), torch.tensor(order), view, correction, view.segments.sum(size)


@pytest.mark.parametrize("spec", [*SPECS, *NORMALISED])
def test_gradients(golden, spec):
    for rows, order, _, _, expected in replayed(golden, spec):
        total = np.exp(np.logaddexp(rows.log_gradient("positive"), rows.log_gradient("negative")))
        wanted = expected[order].numpy()
        np.testing.assert_allclose(total, wanted, rtol=1e-9, atol=1e-12 * wanted.max())


@pytest.mark.parametrize("spec", NORMALISED)
def test_normalised_weights(golden, spec):
    for rows, order, view, correction, _ in replayed(golden, spec):
        weight = correction.applied_weight(view)
        own = view.segments.sum(weight)[order] / view.segments.lengths[order]
        np.testing.assert_allclose(np.exp(rows.log_mean_weight), own.numpy(), rtol=1e-11, atol=1e-14)
        if rows.per_token:
            moments = rows.moments
            assert moments.weight.sum() == pytest.approx(float(weight.sum()), rel=1e-12)
            assert moments.weight_sq.sum() == pytest.approx(float((weight**2).sum()), rel=1e-12)
            assert moments.excess.sum() == pytest.approx(float((weight - 1).sum()), rel=1e-9, abs=1e-11)
            assert moments.excess_sq.sum() == pytest.approx(float(((weight - 1) ** 2).sum()), rel=1e-11)


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_the_report_is_of_normalised_weights(golden, level):
    batch = golden_batch(golden, "", COLUMNS)
    specs = [f"verl/rollout_is:level={level},threshold=1.2,batch_normalize={on}" for on in ("true", "false")]
    normalised, plain = report_of(batch, specs).recipes
    mean = normalised.framework["rollout_corr/rollout_is_batch_norm_factor"].value
    assert abs(mean - 1) > 0.005
    for name in ("min", "mean", "max", "std", "p1", "p50", "p99"):
        found, before = (recipe.figures["applied"][name].value for recipe in (normalised, plain))
        # A quantile of token weights is the middle of its bin in log space.
        assert found == pytest.approx(before / mean, rel=1e-2 if name.startswith("p") else 1e-12), name
    outside = normalised.figures["applied"]["outside_half_two"]
    assert (outside.value is None) == (level == "token")
    left = [recipe.figures["gradient_left"]["all"].value for recipe in (normalised, plain)]
    assert left[0] == pytest.approx(left[1] / mean, rel=1e-12)
    sizes = [recipe.figures["effective_batch_size"]["value"] for recipe in (normalised, plain)]
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-12)


def test_unscored_tokens_leave_no_metric_of_verl(golden):
    report = report_of(golden_batch(golden, "_nan"), ["verl/rollout_is"])
    found = report.recipes[0].framework
    assert {value.value for value in found.values()} == {None}
    assert "NaN" in found["rollout_corr/kl"].why
    assert not math.isnan(report.recipes[0].figures["gradient_left"]["all"].value)
