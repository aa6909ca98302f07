"""open-instruct's rho correction, losses and metrics against what its own code (git e6c3044aa) gave."""

from __future__ import annotations

import json

import pytest
import torch

from iscope.errors import UsageError
from iscope.recipes.grammar import parse
from iscope.recipes.options import spell
from iscope.replay.correction import correct
from iscope.replay.view import token_view
from tests.golden_cases import cases, golden_batch, relative_error, report_of
from tests.golden_replay import loss_and_gradient, on_loss_tokens

COLUMNS = ("trainer_logprobs", "inference_logprobs", "current_logprobs", "ref_logprobs")
# Values of the loss and of its KL term are no figures of a report, nor is a variance over the samples of a rank.
NO_FIGURES = {
    *(f"loss/{name}_avg" for name in ("kl", "policy", "total")),
    *(f"objective/kl{estimator}_avg" for estimator in range(4)),
    "val/ratio_var",
}
CLIPPED = "policy/clipfrac_avg"


def recipe_of(spec: dict) -> str:
    given = dict(spec["options"])
    rho = {name: given.pop(name) for name in list(given) if name.startswith("rho_")}
    corrects = given.pop("use_rho_correction")
    given.pop("num_mini_batches", None)
    if not given.pop("load_ref_policy", False):
        assert not given.get("beta")
    if "loss_denominator" in given:
        given["loss_denominator"] = None if given["loss_denominator"] == "token" else float(given["loss_denominator"])
    bounds = {name: value if isinstance(value, bool) else value or None for name, value in rho.items()}
    options = (bounds if corrects else {}) | given
    text = ",".join(f"{name}={spell(value)}" for name, value in options.items())
    return f"open-instruct/{'rho' if corrects else 'none'}{':' if text else ''}{text}"


def possible(golden, kind: str) -> list[dict]:
    return [case for case in cases(golden, "open_instruct", kind) if not case["spec"]["refused_by_validator"]]


def test_what_the_framework_refuses_is_refused(golden):
    found = [case for kind in ("correction", "loss") for case in cases(golden, "open_instruct", kind)]
    refused = [case for case in found if case["spec"]["refused_by_validator"]]
    assert (len(found), len(refused)) == (41, 1)
    for case in refused:
        assert "rho_mask_upper_bound must be > 1" in case["spec"]["refused_by_validator"]
        with pytest.raises(UsageError, match="mask_upper must be above 1"):
            parse(recipe_of(case["spec"]))


def test_weights(golden):
    batch = golden_batch(golden, "", COLUMNS)
    view = token_view(batch, batch.loss_mask)
    for case in possible(golden, "correction"):
        weight = correct(view, parse(recipe_of(case["spec"]))).applied_weight(view)
        assert relative_error(weight.tolist(), on_loss_tokens(case, "weights", batch)) <= 1e-12, case["spec"]


def test_loss_and_gradient(golden):
    batch = golden_batch(golden, "", COLUMNS)
    for case in possible(golden, "loss"):
        loss, gradient = loss_and_gradient(batch, parse(recipe_of(case["spec"])))
        assert relative_error([loss], case["loss"]) <= 1e-12, case["spec"]
        assert relative_error(gradient.tolist(), on_loss_tokens(case, "grad", batch)) <= 1e-12, case["spec"]
        everywhere = torch.tensor([x for row in case["grad"] for x in row])
        assert not everywhere[~batch.loss_mask].any()


def test_metrics(golden):
    batch = golden_batch(golden, "", COLUMNS)
    found = [case for kind in ("correction", "loss") for case in possible(golden, kind)]
    report = report_of(batch, [recipe_of(case["spec"]) for case in found])
    without = 0
    for case, recipe in zip(found, report.recipes, strict=True):
        for name, value in json.loads(case["metrics"]).items():
            if name in NO_FIGURES:
                assert name not in recipe.framework
            elif name.startswith("val/rho") and recipe.name == "open-instruct/none":
                assert value == 0
                assert name not in recipe.framework
            elif name == CLIPPED and (name not in recipe.framework or recipe.framework[name].value is None):
                options = case["spec"]["options"]
                assert options["loss_fn"] == "cispo" or options["rho_mask_lower_bound"]
                without += 1
            else:
                tolerance = 1e-12 if name.startswith("debug") or name == "val/ratio" else 1e-6
                assert recipe.framework[name].value == pytest.approx(value, rel=tolerance), (recipe.spec, name)
    assert without <= 10


@pytest.mark.parametrize("bound", ["clamp_upper", "mask_lower"])
def test_zero_is_not_a_bound(bound):
    with pytest.raises(UsageError, match="write none for open-instruct's 0"):
        parse(f"open-instruct/rho:{bound}=0")
