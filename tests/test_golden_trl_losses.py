"""TRL's losses and gradients, whole batch, against what TRL 1.16.0's own code gave."""

from __future__ import annotations

import json

import polars as pl
import pytest
import torch

from iscope.analysis.frameworks.trl_losses import loss_metrics
from iscope.analysis.recipe_rows import RecipeRows
from iscope.analysis.rows import Rows
from iscope.ledger.loss_columns import measure_loss
from iscope.ledger.rows import LedgerRows
from iscope.recipes.grammar import parse
from iscope.recipes.options import spell
from iscope.replay.aggregation import Totals, divisors
from iscope.replay.correction import correct
from iscope.replay.losses import loss_terms
from iscope.replay.segments import Segments
from iscope.replay.view import token_view
from tests.golden_cases import cases, golden_batch, relative_error, report_of

VARIANTS = ("", "_nan", "_extreme")
COLUMNS = ("trainer_logprobs", "inference_logprobs", "current_logprobs", "ref_logprobs")


def recipe_of(spec: dict) -> str:
    options = {"loss_type": spec["loss_type"], "importance_sampling_level": spec["importance_sampling_level"]}
    options |= {"max_completion_length": 64, "use_bias_correction_kl": False} | spec["options"]
    if spec["mode"] is not None:
        options |= {"clip_min": spec["min"], "clip_max": spec["max"]}
    text = ",".join(f"{name}={spell(value)}" for name, value in options.items())
    return f"trl/{spec['mode'] or 'none'}:{text}"


def replayed(batch, recipe):
    """Loss of the whole batch, and its gradient by each loss token's current logprob."""
    view = token_view(batch, batch.loss_mask, "trl")
    terms = loss_terms(view, recipe, correct(view, recipe))
    one_batch = torch.zeros(len(batch), dtype=torch.int64)
    loss_tokens = Segments(batch.offsets).count(batch.loss_mask)
    divisor = divisors(recipe.loss, loss_tokens, one_batch, Totals.zeros(1).add(loss_tokens, one_batch))
    loss = float((view.segments.sum(terms.loss()) / divisor).sum())
    return loss, terms.score() / view.segments.expand(divisor)


@pytest.mark.parametrize("variant", VARIANTS)
def test_loss_and_gradient(golden, variant):
    batch = golden_batch(golden, variant, COLUMNS)
    found = cases(golden, f"trl{variant}", "loss")
    assert len(found) == 87
    for case in found:
        loss, gradient = replayed(batch, parse(recipe_of(case["spec"])))
        expected = torch.tensor([x for row in case["grad"] for x in row], dtype=torch.float64)
        assert relative_error([loss], case["loss"]) <= 1e-12, case["spec"]
        assert relative_error(gradient.tolist(), expected[batch.loss_mask].tolist()) <= 1e-12, case["spec"]
        assert not expected[~batch.loss_mask].any()


@pytest.mark.parametrize("variant", VARIANTS)
def test_metrics_of_the_loss(golden, variant):
    batch = golden_batch(golden, variant, COLUMNS)
    for case in cases(golden, f"trl{variant}", "loss"):
        recipe = parse(recipe_of(case["spec"]))
        view = token_view(batch, batch.loss_mask, "trl")
        columns = {f"recipe0:{name}": values for name, values in measure_loss(view, recipe).items()}
        columns["scored"] = view.segments.lengths
        rows = Rows(LedgerRows.of(pl.DataFrame({name: values.numpy() for name, values in columns.items()})), {})
        found = loss_metrics(RecipeRows(rows, 0, recipe, 0))
        logged = {name: value for name, [value] in json.loads(case["metrics"]).items() if name != "entropy"}
        assert set(found) == set(logged)
        for name, value in logged.items():
            assert found[name].value == pytest.approx(value, rel=1e-6, abs=1e-12), (recipe.spec, name)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("mode", ["sequence_truncate:0.5,2", "sequence_mask:0.5,2", "sequence_mask:none,3"])
def test_off_policy_masking_is_not_part_of_the_logged_ratio(golden, variant, mode):
    batch = golden_batch(golden, variant, COLUMNS)
    plain, masked = report_of(batch, [f"trl/{mode}", f"trl/{mode},off_policy_mask_threshold=0.05"]).recipes
    fired = {entry["name"]: entry for entry in masked.figures["masked"]["by_filter"]}["off_policy_mask"]
    assert fired["high"] > 0
    assert masked.framework == plain.framework


def test_off_policy_masking_leaves_no_ratio_of_a_token_mode(golden):
    batch = golden_batch(golden, "", COLUMNS)
    specs = [f"trl/token_mask:0.5,2,off_policy_mask_threshold={threshold}" for threshold in (0.05, 100)]
    report = report_of(batch, ["trl/token_mask:0.5,2", *specs])
    plain, masked, untouched = (recipe.framework for recipe in report.recipes)
    assert untouched == plain
    absent = {name for name, value in masked.items() if value.value is None}
    ratio = "sampling/importance_sampling_ratio"
    assert absent == {
        *(f"{ratio}/{stat}" for stat in ("min", "mean", "max")),
        "sampling/frac_modified_importance_sampling_ratio",
    }
