"""miles' corrections, losses and metrics against what its own code gave at commit 31f1ca961."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from iscope.analysis.report import build_report
from iscope.recipes.grammar import parse
from iscope.replay.aggregation import Totals, counted_tokens, divisors
from iscope.replay.correction import correct
from iscope.replay.losses import loss_terms
from iscope.replay.normalisation import BatchMeans, normalised
from iscope.replay.segments import Segments
from iscope.replay.view import token_view
from tests.golden_cases import cases, golden_batch, ledger_of, relative_error
from tests.test_golden_slime import COLUMNS, VALUES, of_tokens
from tests.test_golden_slime import recipe_of as slime_recipe_of


def recipe_of(spec):
    return slime_recipe_of(spec).replace("slime/", "miles/")


def replayed(golden, kind):
    for case in cases(golden, "miles", kind):
        batch = golden_batch(golden, "", COLUMNS)
        if case["spec"]["options"].get("skip_actor_forward_only"):
            batch = replace(batch, trainer_logprobs=batch.current_logprobs)
        view, recipe = token_view(batch, batch.loss_mask), parse(recipe_of(case["spec"]))
        correction = correct(view, recipe)
        if recipe.weight.normalises:
            one_batch, means = torch.zeros(len(batch), dtype=torch.int64), BatchMeans(recipe)
            means.add(view, correction, one_batch)
            correction = normalised(view, correction, means.means()[one_batch])
        yield case, batch, view, recipe, correction


def test_weights_and_decisions(golden):
    found = list(replayed(golden, "correction"))
    assert len(found) == 9
    for case, batch, view, recipe, correction in found:
        weights, kept = of_tokens(batch, case["weights"]), of_tokens(batch, case["keep"], torch.bool)
        assert relative_error(correction.applied_weight(view).tolist(), (weights * kept).tolist()) <= 1e-12, case[
            "case"
        ]
        if recipe.name == "miles/mis":
            assert correction.keep(view).tolist() == kept.tolist(), case["case"]


def test_loss_and_gradient(golden):
    found = list(replayed(golden, "loss"))
    assert len(found) == 20
    for case, batch, view, recipe, correction in found:
        terms, one_batch = loss_terms(view, recipe, correction), torch.zeros(len(batch), dtype=torch.int64)
        loss_tokens = Segments(batch.offsets).count(batch.loss_mask)
        totals = Totals.zeros(1).add(counted_tokens(recipe.loss, loss_tokens), one_batch)
        divisor = divisors(recipe.loss, loss_tokens, one_batch, totals) / case["spec"]["normalizer"]
        gradient = terms.score() / view.segments.expand(divisor)
        loss = float((view.segments.sum(terms.loss()) / divisor).sum())
        assert relative_error([loss], case["loss"]) <= 1e-6, case["case"]
        assert relative_error(gradient.tolist(), of_tokens(batch, case["grad"]).tolist()) <= 1e-6, case["case"]


def test_metrics(golden):
    for case, batch, _, recipe, _ in replayed(golden, "loss"):
        logged, ours = json.loads(case["metrics"]), build_report(ledger_of(batch, [recipe])).recipes[0].framework
        assert set(logged) - set(ours) == VALUES, case["case"]
        assert set(ours) <= set(logged), case["case"]
        for name, value in ours.items():
            assert value.value == pytest.approx(logged[name], rel=1e-6, abs=1e-12), (case["case"], name)
