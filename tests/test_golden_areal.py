"""AReaL's corrections, losses and metrics against what its own code (1.0.4) gave."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch

from iscope.analysis.report import build_report
from iscope.ledger.ledger import LedgerBuilder
from iscope.ledger.measure import measure
from iscope.ledger.plan import Plan
from iscope.recipes.grammar import parse
from iscope.recipes.model import Pair
from iscope.recipes.options import spell
from iscope.replay.correction import correct
from iscope.replay.view import token_view
from tests.golden_cases import cases, golden_batch, relative_error
from tests.golden_replay import loss_and_gradient, on_loss_tokens

VARIANTS = ("", "_extreme")
COLUMNS = ("trainer_logprobs", "inference_logprobs", "current_logprobs")
FLOAT32_MAX = torch.finfo(torch.float32).max
# torch.sort is not stable: of tokens with the same d^2 AReaL dropped others than the first ones. How many are dropped
# of each value agrees, so the loss does too, and the gradient but for its place.
OTHER_OF_EQUALS = {("_extreme", 44), ("_extreme", 64), ("_extreme", 65)}
TOLERANCE = {"float64": 1e-12, "float32": 1e-6}


def recipe_of(case: dict) -> str:
    given = dict(case["spec"]["options"])
    if case["kind"] == "correction":
        return spelled("rejection_sampling", given)
    if case["kind"] == "filter":
        return spelled("m2po", given)
    sampling, threshold = given.pop("rejection_sampling"), given.pop("m2_threshold")
    decoupled, sapo = given.pop("use_decoupled_loss"), given.pop("use_sapo_loss")
    taus = {name: given.pop(name) for name in ("sapo_tau_pos", "sapo_tau_neg")}
    if not decoupled:
        assert sampling is None
        assert threshold is None
        return spelled("sapo", taus | given) if sapo else spelled("coupled", given)
    if sampling is not None:
        return spelled("rejection_sampling", sampling | {"m2_threshold": threshold} | given)
    return spelled("none", given) if threshold is None else spelled("m2po", {"m2_threshold": threshold} | given)


def spelled(name: str, options: dict) -> str:
    return f"areal/{name}:" + ",".join(f"{option}={spell(value)}" for option, value in options.items())


def batch_for(golden, variant, case):
    """The dump in the precision that the framework took log-ratios in."""
    batch = golden_batch(golden, variant, COLUMNS)
    dtype = getattr(torch, case["dtype"])
    return replace(batch, **{name: getattr(batch, name).to(dtype) for name in COLUMNS})


@pytest.mark.parametrize("variant", VARIANTS)
def test_weights(golden, variant):
    found = cases(golden, f"areal{variant}", "correction")
    assert len(found) == 41
    for case in found:
        batch = batch_for(golden, variant, case)
        view = token_view(batch, batch.loss_mask)
        correction = correct(view, parse(recipe_of(case)))
        expected = on_loss_tokens(case, "weights", batch)
        assert relative_error(correction.applied_weight(view).tolist(), expected) <= 1e-6, case["spec"]
        assert correction.keep(view).tolist() == on_loss_tokens(case, "keep", batch), case["spec"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_m2po(golden, variant):
    found = cases(golden, f"areal{variant}", "filter")
    assert len(found) == 5
    for case in found:
        batch = batch_for(golden, variant, case)
        view = token_view(batch, batch.loss_mask)
        keep, expected = correct(view, parse(recipe_of(case))).keep(view), on_loss_tokens(case, "keep", batch)
        size = view.log_ratio(Pair.TRAINER_INFERENCE).square()
        assert sorted(size[keep].tolist()) == sorted(size[torch.tensor(expected) > 0].tolist()), case["spec"]
        assert (keep.tolist() != expected) == ((variant, case["case"]) in OTHER_OF_EQUALS), case["spec"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_loss_and_gradient(golden, variant):
    found = cases(golden, f"areal{variant}", "loss")
    assert len(found) == 26
    for case in found:
        batch, tolerance = batch_for(golden, variant, case), TOLERANCE[case["dtype"]]
        loss, gradient = loss_and_gradient(batch, parse(recipe_of(case)))
        assert relative_error([loss], case["loss"]) <= tolerance, case["spec"]
        expected, size = torch.tensor(on_loss_tokens(case, "grad", batch), dtype=torch.float64), gradient
        exact = relative_error(size.tolist(), expected.tolist()) <= tolerance
        assert exact != ((variant, case["case"]) in OTHER_OF_EQUALS), case["spec"]
        assert relative_error(size.sort().values.tolist(), expected.sort().values.tolist()) <= tolerance, case["spec"]
        everywhere = torch.tensor([x for row in case["grad"] for x in row])
        assert not everywhere[~batch.loss_mask].any()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("variant", VARIANTS)
def test_metrics(golden, variant, dtype):
    found = [case for kind in ("correction", "loss") for case in cases(golden, f"areal{variant}", kind)]
    found = [case for case in found if case["dtype"] == dtype]
    plan = Plan(tuple(parse(recipe_of(case)) for case in found), precision=dtype)
    batch, builder = batch_for(golden, variant, found[0]), LedgerBuilder(plan)
    builder.add([batch], measure(batch, plan))
    for case, recipe in zip(found, build_report(builder.finish()).recipes, strict=True):
        logged = {name: value for name, value in json.loads(case["metrics"]).items() if not name.startswith("entropy/")}
        shown = {name: figure.value for name, figure in recipe.framework.items() if figure.value is not None}
        if case["kind"] == "loss":
            beyond = {name for name in set(shown) - set(logged) if abs(shown[name]) > FLOAT32_MAX}
            assert set(shown) == set(logged) | beyond, recipe.spec
        for name, value in logged.items():
            if math.isinf(value):
                assert shown[name] * shown["n_valid_tokens"] > FLOAT32_MAX, (recipe.spec, name)
                continue
            assert shown[name] == pytest.approx(value, rel=1e-6, abs=rounding(name, logged)), (recipe.spec, name)


def rounding(name, logged):
    """What float32 leaves of an average that cancels, and of exp(d) - 1 - d, next to 1."""
    stem = name.rpartition("/")[0]
    largest = max(abs(logged.get(f"{stem}/{end}", 0.0)) for end in ("min", "max"))
    return (1e-7 * largest if name.endswith("/avg") else 1e-30) + (2**-23 if stem.endswith("kl_div_dual") else 0.0)
