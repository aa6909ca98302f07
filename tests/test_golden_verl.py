"""verl's weights, rejections, losses, gradients and metrics against what verl 0.9.1's own code gave."""

from __future__ import annotations

import json

import pytest
import torch

from iscope.recipes.grammar import parse
from iscope.recipes.options import spell
from iscope.replay.aggregation import Totals
from iscope.replay.correction import correct
from iscope.replay.normalisation import BatchMeans, normalised
from iscope.replay.outcome import add_weights, divided, replay_batch
from iscope.replay.segments import Segments
from iscope.replay.view import token_view
from tests.golden_cases import cases, golden_batch, relative_error, report_of

FILES = ("verl", "verl_extreme")
COLUMNS = ("trainer_logprobs", "inference_logprobs", "current_logprobs")


def options_of(values: dict) -> str:
    return ",".join(f"{name}={spell(value)}" for name, value in values.items())


def batch_for(golden, file, columns=COLUMNS[:2]):
    return golden_batch(golden, file.removeprefix("verl"), columns)


def corrected(view, recipe):
    """The correction of one batch, its weights normalised where the recipe says so."""
    correction = correct(view, recipe)
    if not recipe.weight.normalises:
        return correction
    means = BatchMeans(recipe)
    one_batch = torch.zeros(view.segments.rows, dtype=torch.int64)
    means.add(view, correction, one_batch)
    return normalised(view, correction, means.means()[one_batch])


def of_loss_tokens(batch, rows):
    """Values of a case at the loss tokens; one value for a rollout stands for each of its tokens."""
    lengths = (batch.offsets[1:] - batch.offsets[:-1]).tolist()
    flat = [x for row, n in zip(rows, lengths, strict=True) for x in (row if len(row) == n else row * n)]
    return torch.tensor(flat, dtype=torch.float64)[batch.loss_mask]


@pytest.mark.parametrize("file", FILES)
def test_weights(golden, file):
    batch = batch_for(golden, file)
    view = token_view(batch, batch.loss_mask)
    found = cases(golden, file, "rollout_is")
    assert len(found) == 16
    for case in found:
        recipe = parse(f"verl/rollout_is:{options_of(case['spec'])}")
        weight = corrected(view, recipe).applied_weight(view)
        expected = of_loss_tokens(batch, case["weights"])
        assert relative_error(weight.tolist(), expected.tolist()) <= 1e-12, recipe.spec


@pytest.mark.parametrize("file", FILES)
def test_rejections(golden, file):
    batch = batch_for(golden, file)
    view = token_view(batch, batch.loss_mask)
    found = cases(golden, file, "rollout_rs")
    assert len(found) == 14
    for case in found:
        recipe = parse(f"verl/rollout_rs:{options_of(case['spec'])}")
        keep = correct(view, recipe).keep(view)
        assert keep.double().tolist() == of_loss_tokens(batch, case["keep"]).tolist(), recipe.spec


def loss_recipe(spec, batch):
    """verl's own fallbacks there: the rollouts with loss tokens, and the padded length of the batch."""
    layout = Segments(batch.offsets)
    options = {"loss_type": spec["policy_loss"], "loss_agg_mode": spec["loss_agg_mode"]}
    options |= {key: value for key, value in spec["options"].items() if key != "policy_loss"}
    options |= spec["options"].get("policy_loss", {})
    options["global_batch_size"] = int((layout.count(batch.loss_mask) > 0).sum())
    options["loss_scale_factor"] = int(layout.lengths.max())
    weighting = spec["rollout_is"]
    if weighting is None:
        return parse(f"verl/none:{options_of(options)}")
    return parse(f"verl/rollout_is:{options_of(weighting | options)}")


def replayed(batch, recipe):
    """Loss of the batch, and its gradient by each loss token's current logprob."""
    one_batch, mean = torch.zeros(len(batch), dtype=torch.int64), None
    if recipe.weight.normalises:
        means = BatchMeans(recipe)
        add_weights(means, batch, "exclude", one_batch)
        mean = means.means()[one_batch]
    outcome = replay_batch(batch, recipe, "exclude", mean)
    counted = outcome.read_tokens if recipe.loss.denominator.counts_dropped else outcome.loss_tokens
    loss, gradient = divided(outcome, recipe, one_batch, Totals.zeros(1).add(counted, one_batch))
    return float(loss.sum()), gradient


@pytest.mark.parametrize("file", FILES)
def test_loss_and_gradient(golden, file):
    batch = batch_for(golden, file, COLUMNS)
    found = cases(golden, file, "loss")
    assert len(found) == 88
    for case in found:
        recipe = loss_recipe(case["spec"], batch)
        loss, gradient = replayed(batch, recipe)
        expected = torch.tensor([x for row in case["grad"] for x in row], dtype=torch.float64)
        assert relative_error([loss], case["loss"]) <= 1e-12, recipe.spec
        assert relative_error(gradient.tolist(), expected[batch.loss_mask].tolist()) <= 1e-12, recipe.spec
        assert not expected[~batch.loss_mask].any()


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("kind", ["rollout_is", "rollout_rs"])
def test_metrics_of_the_correction(golden, file, kind):
    found = cases(golden, file, kind)
    specs = [f"verl/{kind}:{options_of(case['spec'])}" for case in found]
    for case, recipe in zip(found, report_of(batch_for(golden, file), specs).recipes, strict=True):
        assert_metrics(recipe.framework, json.loads(case["metrics"]), recipe.spec)


@pytest.mark.parametrize("file", FILES)
def test_metrics_of_the_loss(golden, file):
    batch = batch_for(golden, file, COLUMNS)
    found = cases(golden, file, "loss")
    specs = [loss_recipe(case["spec"], batch).spec for case in found]
    for case, recipe in zip(found, report_of(batch, specs).recipes, strict=True):
        of_loss = {name: value for name, value in recipe.framework.items() if name.startswith("actor/")}
        assert_metrics(of_loss, json.loads(case["metrics"]), recipe.spec)


def assert_metrics(found, logged, spec):
    """Shares are float32 means of flags there."""
    assert set(found) == set(logged)
    for name, value in logged.items():
        flags = any(part in name for part in ("fraction", "oob_ratio", "clipfrac"))
        assert found[name].value == pytest.approx(value, rel=1e-6 if flags else 1e-12, abs=1e-15), (spec, name)
