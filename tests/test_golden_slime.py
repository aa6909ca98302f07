"""slime's corrections, losses and metrics against what its own code gave at commit 624b824a."""

from __future__ import annotations

import json

import pytest
import torch

from iscope.analysis.report import build_report
from iscope.recipes.grammar import parse
from iscope.recipes.model import Pair
from iscope.recipes.options import spell
from iscope.recipes.slime import FRAMEWORK
from iscope.replay.aggregation import Totals, counted_tokens, divisors
from iscope.replay.correction import correct
from iscope.replay.losses import loss_terms
from iscope.replay.normalisation import BatchMeans, normalised
from iscope.replay.segments import Segments
from iscope.replay.view import token_view
from tests.golden_cases import cases, golden_batch, ledger_of, relative_error

VARIANTS = ("", "_extreme")
COLUMNS = ("trainer_logprobs", "inference_logprobs", "current_logprobs", "ref_logprobs")
# Values of the loss itself, and of the entropy, for which a dump has not the logits.
VALUES = {"loss", "pg_loss", "entropy_loss"}
LOSS_OPTIONS = {option.name: option.short for option in FRAMEWORK.loss_options}


def recipe_of(spec: dict) -> str:
    options = spec["options"]
    function = spec.get("function") or options["custom_tis_function_path"] or ""
    mode = "mis" if "mis" in function else "icepop" if "icepop" in function else "tis"
    runs = "function" in spec or options["use_tis"] or options["get_mismatch_metrics"]
    row = next(row for row in FRAMEWORK.recipes if row.name == f"slime/{mode if runs else 'none'}")
    names = {option.name: option.short for option in row.options} | LOSS_OPTIONS
    given = {names[name]: value for name, value in options.items() if name in names}
    return f"{row.name}:" + ",".join(f"{name}={spell(value)}" for name, value in given.items()) if given else row.name


def replayed(golden, variant, kind):
    batch = golden_batch(golden, variant, COLUMNS)
    view = token_view(batch, batch.loss_mask)
    for case in cases(golden, f"slime{variant}", kind):
        recipe = parse(recipe_of(case["spec"]))
        correction = correct(view, recipe)
        if recipe.weight.normalises:
            one_batch = torch.zeros(len(batch), dtype=torch.int64)
            means = BatchMeans(recipe)
            means.add(view, correction, one_batch)
            correction = normalised(view, correction, means.means()[one_batch])
        yield case, batch, view, recipe, correction


def of_tokens(batch, rows, dtype=torch.float64):
    """Values per rollout and token as one row; where there is one per rollout each of its tokens has it."""
    lengths = Segments(batch.offsets).lengths.tolist()
    spread = [row if len(row) == n else row * n for row, n in zip(rows, lengths, strict=True)]
    return torch.tensor([x for row in spread for x in row], dtype=dtype)[batch.loss_mask]


@pytest.mark.parametrize("variant", VARIANTS)
def test_weights_and_decisions(golden, variant):
    for case, batch, view, recipe, correction in replayed(golden, variant, "correction"):
        weights, kept = case["weights"], of_tokens(batch, case["keep"], torch.bool)
        weights = torch.ones_like(kept, dtype=torch.float64) if weights is None else of_tokens(batch, weights)
        found = correction.applied_weight(view)
        assert relative_error(found.tolist(), (weights * kept).tolist()) <= 1e-12, case["case"]
        if recipe.name == "slime/mis":
            assert correction.keep(view).tolist() == kept.tolist(), case["case"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_loss_and_gradient(golden, variant):
    for case, batch, view, recipe, correction in replayed(golden, variant, "loss"):
        tolerance = 1e-12 if case["dtype"] == "float64" else 1e-6
        terms = loss_terms(view, recipe, correction)
        one_batch = torch.zeros(len(batch), dtype=torch.int64)
        loss_tokens = Segments(batch.offsets).count(batch.loss_mask)
        totals = Totals.zeros(1).add(counted_tokens(recipe.loss, loss_tokens), one_batch)
        divisor = divisors(recipe.loss, loss_tokens, one_batch, totals) / case["spec"]["normalizer"]
        gradient = terms.score() / view.segments.expand(divisor)
        loss = float((view.segments.sum(terms.loss()) / divisor).sum())
        expected = of_tokens(batch, case["grad"])
        assert relative_error([loss], case["loss"]) <= tolerance, case["case"]
        assert relative_error(gradient.tolist(), expected.tolist()) <= tolerance, case["case"]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", ["correction", "loss"])
def test_metrics(golden, variant, kind):
    found = list(replayed(golden, variant, kind))
    report = build_report(ledger_of(found[0][1], [recipe for _, _, _, recipe, _ in found]))
    terms = float(found[0][2].exact(Pair.CURRENT_REF).abs().mean())
    for (case, *_), entry in zip(found, report.recipes, strict=True):
        logged = json.loads(case["metrics"])
        ours = dict(entry.framework)
        if kind == "correction":
            prefix = "mis_" if case["spec"]["function"] == "mis" else ""
            logged = {prefix + name: value for name, value in logged.items()}
            ours = {name: value for name, value in ours.items() if name.startswith(("tis", "mis"))}
        assert set(logged) - set(ours) == (VALUES if kind == "loss" else set()), case["case"]
        assert set(ours) <= set(logged), case["case"]
        for name, value in ours.items():
            # The KL term is summed in float32, and of k1 the terms have both signs: their size counts, not their sum's.
            smallest = 1e-6 * terms if name == "kl_loss" else 1e-12
            assert value.value == pytest.approx(logged[name], rel=1e-6, abs=smallest), (case["case"], name)
