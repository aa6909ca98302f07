"""Weights that an upper bound below 0 makes: what every figure, row and replay says of them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import iscope
from iscope.ledger.sweep.families import token_part
from iscope.recipes.grammar import parse
from iscope.recipes.model import Level, WeightRule
from iscope.replay.correction import correct
from iscope.replay.normalisation import BatchMeans, normalised
from iscope.replay.view import token_view
from tests.contract_cases import batch_of, ragged

BATCH = batch_of(ragged())
TOKEN, ROLLOUT = "skyrl/tis:token,-0.7", "skyrl/tis:sequence,2,-0.7"
MASKED = "skyrl/off_policy_correction:ratio_type=token,token_clip=-0.7,token_low=0.9,token_high=1.1"
PRODUCT = "skyrl/off_policy_correction:ratio_type=sequence,seq_clip=-0.7,mask_metric=product,product_mask_low=0.9"
NAMES = ("min", "mean", "max", "std", "outside_half_two")


def entry_of(spec):
    report = iscope.analyze(BATCH, recipes=[spec])
    json.dumps(report.to_dict(), allow_nan=False)
    return report, report.recipes[0].figures


def weights_of(spec):
    """The weight of every scored token, by rollout."""
    rows = iscope.replay(BATCH, recipe=spec).to_polars()["weight"].to_list()
    return [[w for w in row if w is not None] for row in rows]


@pytest.mark.parametrize("spec", [TOKEN, ROLLOUT])
def test_every_token_has_the_bound_as_its_weight(spec):
    assert {round(w, 6) for row in weights_of(spec) for w in row} == {-0.7}
    report, found = entry_of(spec)
    # The deviation is from moments: of equal weights it is 0 to the root of the rounding.
    assert [found["applied"][name].value for name in NAMES] == pytest.approx([-0.7, -0.7, -0.7, 0.0, 1.0], abs=2e-8)
    assert "quantiles" in found["applied"]["p50"].why
    assert found["truncated"]["high"] == report.coverage.tokens_loss
    assert found["ess"]["token_fraction"].value == pytest.approx(1.0)
    assert found["gradient_left"]["all"].value == pytest.approx(0.7)
    assert found["product_left"].value == 1.0
    said = f"{report.recipes[0].spec}: the upper bound of the weight is below 0, so every weight is -0.7"
    for assumptions in (report.assumptions, iscope.replay(BATCH, recipe=spec).assumptions):
        assert sum(sentence.startswith(said) for sentence in assumptions) == 1


@pytest.mark.parametrize(("spec", "unit"), [(MASKED, "tokens"), (PRODUCT, "rollouts")])
def test_what_is_rejected_has_none(spec, unit):
    rows = [row for row in weights_of(spec) if row]
    units = [w for row in rows for w in row] if unit == "tokens" else [row[0] for row in rows]
    assert {round(w, 6) for w in units} == {-0.7, 0.0}
    mean = sum(units) / len(units)
    std = (sum((w - mean) ** 2 for w in units) / len(units)) ** 0.5
    applied = entry_of(spec)[1]["applied"]
    assert [applied[name].value for name in NAMES] == pytest.approx([-0.7, mean, 0.0, std, 1.0], rel=1e-6)
    assert "-0.0" not in json.dumps(applied["max"].to_dict())


@pytest.mark.parametrize("level", [Level.TOKEN, Level.SEQUENCE])
@pytest.mark.parametrize("overflow", ["keep", "zero", "zero_first"])
def test_neither_a_lower_bound_nor_an_overflow_saves_a_weight(level, overflow):
    rule = WeightRule(level, low=0.5, high=-2.0, overflow=overflow)
    view = token_view(batch_of(ragged(spread=200.0)), None)
    weight = correct(view, replace(parse("none"), weight=rule)).applied_weight(view)
    assert weight.tolist() == pytest.approx([-2.0] * view.segments.tokens)


@pytest.mark.parametrize("level", [Level.TOKEN, Level.SEQUENCE])
def test_a_mean_below_zero_divides_nothing(level):
    recipe = replace(parse("none"), weight=WeightRule(level, high=-2.0, normalise=True))
    view = token_view(BATCH, BATCH.loss_mask)
    means, places = BatchMeans(recipe), view.segments.lengths * 0
    means.add(view, correct(view, recipe), places)
    divided = normalised(view, correct(view, recipe), means.means()[places]).weight
    assert divided.of_tokens(view.segments).tolist() == pytest.approx([-2.0] * view.segments.tokens)
    if divided.excess is not None:
        assert divided.excess.tolist() == pytest.approx([-3.0] * view.segments.tokens)


def test_a_bound_of_zero_is_no_sign():
    assert [parse(f"skyrl/tis:token,{cap}").weight.sign for cap in (-0.1, 0, 2)] == [-1, 1, 1]
    assert parse("skyrl/none").weight.sign == 1
    assert {w for row in weights_of("skyrl/tis:token,0") for w in row} == {0.0}
    assert entry_of("skyrl/tis:token,0")[1]["applied"]["max"].value == 0.0


def test_a_setting_of_a_sweep_is_replayed_by_itself():
    assert token_part(parse("skyrl/tis:token,-0.7")) is None
    assert token_part(parse("prime-rl/seq_tis")) is not None
