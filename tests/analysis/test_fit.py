"""Bounds fitted to a dump: each rule keeps at least the share asked for, on the dump that it was fitted to."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import iscope
from iscope.errors import DataError, UsageError
from iscope.ledger import store
from iscope.model import Report
from iscope.render import renderer
from tests.analysis.test_khat import dump_of

RECIPES = [
    "prime-rl/mis_po",
    "trl/sequence_mask",
    "trl/sequence_truncate",
    "trl/token_mask",
    "trl/token_truncate",
    "geometric_mask",
    "verl/rollout_rs:option=seq_mean_k1",
    "slime/icepop",
    "nemo-rl/seq-mask-tis",
    "off_policy_sequence_mask",
]


def rejected(rule, unit):
    """Tokens or rollouts that a rule found outside its bounds."""
    ends = ("low", "high") if unit == "tokens" else ("rollouts_low", "rollouts_high")
    return sum(rule[end] for end in ends)


@pytest.mark.parametrize(("recipe", "keep"), [*((recipe, 0.95) for recipe in RECIPES), ("prime-rl/mis_po", 0.5)])
def test_each_rule_keeps_the_share(recipe, keep, sample):
    folder = sample / "base"
    paths = {"trainer": folder / "trainer_fp32_lag8.parquet", "vllm": folder / "vllm.parquet"}
    report = iscope.analyze(**paths, recipes=[recipe], fit=keep)
    (found,) = report.recipes
    assert found.fitted
    assert found.spec != iscope.analyze(**paths, recipes=[recipe]).recipes[0].spec
    assert any("FITTED" in said and found.spec in said and f"{keep:g}" in said for said in report.assumptions)
    whole = {"tokens": report.coverage.tokens_scored, "rollouts": report.coverage.rollouts_analyzed}
    per_token = {"token_mask", "icepop", "token_k1"}
    rules = found.figures["masked"]["by_filter"]
    for rule in rules:
        unit = "tokens" if rule["name"] in per_token else "rollouts"
        out = rejected(rule, unit) / whole[unit]
        assert out <= 1 - keep
        assert out > (1 - keep) * (0.8 if recipe != "off_policy_sequence_mask" else 0.2)
    cut = found.figures["truncated"]
    if not rules:
        unit = "tokens" if found.unit == "tokens" else "rollouts"
        assert 0.8 * (1 - keep) < cut[unit] / whole[unit] <= 1 - keep


def test_bounds_in_rollouts_are_exact_quantiles():
    logs = np.random.default_rng(0).permutation(np.linspace(-1, 1, 201))
    report = iscope.analyze(dump_of(logs), recipes=["trl/sequence_mask:clip_min=0.9", "geometric_mask"], fit=0.9)
    one_sided, two_sided = report.recipes
    assert one_sided.options["clip_min"] == 0.9
    assert np.log(two_sided.options["low"]) == pytest.approx(-0.9, abs=0.01)
    assert np.log(two_sided.options["high"]) == pytest.approx(0.9, abs=0.01)
    assert two_sided.figures["masked"]["rollouts"] == 20


def test_only_named_recipes_are_fitted():
    table = dump_of(np.linspace(-0.1, 0.1, 50))
    with pytest.raises(UsageError, match="no bound to fit"):
        iscope.analyze(table, fit=0.9)
    with pytest.raises(UsageError, match="no bound to fit"):
        iscope.analyze(table, recipes=["none", "geometric_mask:0.9,1.1"], fit=0.9)
    report = iscope.analyze(table, recipes=["none", "geometric_mask:0.9"], fit=0.9)
    assert [recipe.fitted for recipe in report.recipes] == [(), ("high",)]


@pytest.mark.parametrize("keep", [0, 1, -0.5, 95, float("nan")])
def test_a_share_that_is_none(keep):
    with pytest.raises(UsageError, match="between 0 and 1"):
        iscope.analyze(dump_of([0.1, 0.2]), recipes=["geometric_mask"], fit=keep)


def test_what_cannot_be_fitted():
    schema = {name: pl.List(pl.Float32) for name in ("trainer_logprobs", "inference_logprobs")}
    empty = pl.DataFrame({"trainer_logprobs": [[]], "inference_logprobs": [[]]}, schema_overrides=schema)
    with pytest.raises(DataError, match="no scored token"):
        iscope.analyze(empty, recipes=["geometric_mask"], fit=0.9)
    with pytest.raises(DataError, match=r"trl/sequence_mask: no bound can be fitted .* e\^800"):
        iscope.analyze(dump_of([-800.0, 800.0], tokens=2), recipes=["trl/sequence_mask"], fit=0.9)


@pytest.mark.parametrize("logs", [[0.0] * 30, [0.25] * 30, [0.1]], ids=["zeros", "equal", "one rollout"])
def test_odd_dumps(logs):
    (found,) = iscope.analyze(dump_of(logs), recipes=["prime-rl/mis_po"], fit=0.95).recipes
    assert found.figures["kept"]["rollouts"] == len(logs)
    assert found.options["geo_mask_low"] < found.options["geo_mask_high"]


def test_it_is_marked_wherever_the_report_goes(tmp_path):
    table = dump_of(np.linspace(-0.1, 0.1, 50))
    report = iscope.analyze(table, recipes=["geometric_mask"], fit=0.9, ledger=tmp_path / "a.ledger")
    data = json.loads(json.dumps(report.to_dict()))
    assert data["recipes"][0]["fitted"] == ["low", "high"]
    assert Report.from_dict(data).recipes[0].fitted == ("low", "high")
    assert "(fitted)" in renderer("terminal")(report)
    plan = store.load(tmp_path / "a.ledger").plan
    assert (plan.fit, plan.recipes[0].fitted) == (0.9, ("low", "high"))
    again = iscope.analyze(table, recipes=["geometric_mask"], fit=0.9)
    assert again.to_dict()["recipes"] == data["recipes"]
    assert "fitted" not in iscope.analyze(table, recipes=["geometric_mask"]).to_dict()["recipes"][0]
