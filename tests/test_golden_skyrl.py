"""SkyRL's corrections, losses and metrics against what its own code gave at commit a9564572."""

from __future__ import annotations

import json

import pytest
import torch

from iscope.analysis.report import build_report
from iscope.errors import UsageError
from iscope.recipes.grammar import parse
from iscope.recipes.options import spell
from iscope.recipes.skyrl import FRAMEWORK
from iscope.recipes.skyrl_losses import UNCORRECTED
from iscope.replay.aggregation import Totals, divisors
from iscope.replay.correction import correct
from iscope.replay.groups import Groups
from iscope.replay.losses import loss_terms
from iscope.replay.segments import Segments
from iscope.replay.view import token_view
from tests.golden_cases import cases, golden_batch, ledger_of, relative_error

VARIANTS = ("", "_extreme")
COLUMNS = ("trainer_logprobs", "inference_logprobs", "current_logprobs")
FULL = next(row for row in FRAMEWORK.recipes if row.name == "skyrl/off_policy_correction")
OPTIONS = {option.name: option for option in (*FULL.options, *FRAMEWORK.loss_options)}
NOT_REPLAYED = {
    "token_mean_legacy divides by the loss tokens of each micro-batch, which no dump records": [37, 38],
    "clip_cov picks tokens at random": [67, 68],
    "kl_cov sorts the tokens of a micro-batch, which no dump records": [69, 70],
}


def recipe_of(spec: dict) -> str:
    correction = spec.get("off_policy_correction", spec.get("options"))
    losses = {} if "policy_loss_type" not in spec else {"loss_type": spec["policy_loss_type"]}
    if losses:
        options = dict(spec["options"])
        for name in ("cispo", "dppo", "sapo"):
            options |= options.pop(name, {})
        losses |= {"loss_reduction": spec["loss_reduction"]} | options
    ignored = losses.get("loss_type") in UNCORRECTED
    name = "skyrl/none" if ignored else "skyrl/off_policy_correction"
    given = losses if ignored else {OPTIONS[name].short: value for name, value in correction.items()} | losses
    return f"{name}:" + ",".join(f"{name}={spell(value)}" for name, value in given.items())


def replayed(golden, variant, kind):
    batch = golden_batch(golden, variant, COLUMNS)
    view = token_view(batch, batch.loss_mask)
    left = {case for group in NOT_REPLAYED.values() for case in group}
    for case in cases(golden, f"skyrl{variant}", kind):
        if case["case"] not in left:
            recipe = parse(recipe_of(case["spec"]))
            yield case, batch, view, recipe, correct(view, recipe)


def of_tokens(batch, rows, dtype=torch.float64):
    """Values per rollout and token as one row; where there is one per rollout each of its tokens has it."""
    lengths = Segments(batch.offsets).lengths.tolist()
    spread = [row if len(row) == n else row * n for row, n in zip(rows, lengths, strict=True)]
    return torch.tensor([x for row in spread for x in row], dtype=dtype)[batch.loss_mask]


@pytest.mark.parametrize("variant", VARIANTS)
def test_weights_and_decisions(golden, variant):
    for case, batch, view, _, correction in replayed(golden, variant, "correction"):
        keep = correction.keep(view)
        assert keep.tolist() == of_tokens(batch, case["keep"], torch.bool).tolist(), case["case"]
        weights = torch.ones_like(keep, dtype=torch.float64)
        if case["weights"] is not None:
            weights = of_tokens(batch, case["weights"])
        found = correction.applied_weight(view)
        assert relative_error(found.tolist(), (weights * keep).tolist()) <= 1e-6, case["case"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_loss_and_gradient(golden, variant):
    for case, batch, view, recipe, correction in replayed(golden, variant, "loss"):
        tolerance = 1e-12 if case["dtype"] == "float64" else 1e-6
        terms = loss_terms(view, recipe, correction)
        one_batch = torch.zeros(len(batch), dtype=torch.int64)
        loss_tokens, groups = Segments(batch.offsets).count(batch.loss_mask), Groups().numbers(batch.columns, one_batch)
        totals = Totals.zeros(1).add(loss_tokens, one_batch, None, groups)
        divisor = divisors(recipe.loss, loss_tokens, one_batch, totals, groups)
        gradient = terms.score() / view.segments.expand(divisor)
        loss = float((view.segments.sum(terms.loss()) / divisor).sum())
        assert relative_error([loss], case["loss"]) <= tolerance, case["case"]
        expected = of_tokens(batch, case["grad"])
        assert relative_error(gradient.tolist(), expected.tolist()) <= tolerance, case["case"]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", ["correction", "loss"])
def test_metrics(golden, variant, kind):
    found = list(replayed(golden, variant, kind))
    report = build_report(ledger_of(found[0][1], [recipe for _, _, _, recipe, _ in found]))
    for (case, *_), entry in zip(found, report.recipes, strict=True):
        logged = json.loads(case["metrics"])
        ours = dict(entry.framework)
        if kind == "correction":
            ours = {name: value for name, value in ours.items() if not name.startswith(("clip_ratio", "importance"))}
        assert set(ours) == set(logged), case["case"]
        for name, value in logged.items():
            assert ours[name].value == pytest.approx(value, rel=1e-6, abs=1e-12), (case["case"], name)


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_not_replayed_cannot_be(golden, variant):
    """Each case that is left out is one that no recipe spells."""
    left = [case for group in NOT_REPLAYED.values() for case in group]
    every = [case for kind in ("correction", "loss") for case in cases(golden, f"skyrl{variant}", kind)]
    assert len(every) == 74
    for case in every:
        if case["case"] in left:
            with pytest.raises(UsageError):
                parse(recipe_of(case["spec"]))
        else:
            parse(recipe_of(case["spec"]))


# The recipes of single stages, and what spells the same in the one of all stages.
STAGES = {
    "skyrl/none": "",
    "skyrl/tis": "token",
    "skyrl/tis:sequence": "sequence",
    "skyrl/geometric": "mask_metric=geometric",
    "skyrl/product": "mask_metric=product",
    "skyrl/outlier": "outlier_low=1e-4,outlier_high=100",
    "skyrl/token_mask": "token_low=0.5,token_high=2",
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_alone_is_the_whole_with_the_others_off(stage):
    whole = parse(f"skyrl/off_policy_correction:{STAGES[stage]}".removesuffix(":"))
    alone = parse(stage)
    assert (alone.weight, alone.filters, alone.loss) == (whole.weight, whole.filters, whole.loss)
