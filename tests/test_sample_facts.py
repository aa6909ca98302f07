"""The figures on every real dump against facts measured by an independent script."""

from __future__ import annotations

import json
from math import log
from pathlib import Path

import pytest

import iscope

FACTS = json.loads((Path(__file__).parent / "data" / "sample_facts.json").read_text(encoding="utf-8"))
RECIPES = ["icepop:0.5,5", "geometric_mask:0.996,1.001"]


@pytest.mark.parametrize("fact", FACTS["dumps"], ids=lambda fact: f"{fact['dump']}/{fact['trainer']}")
def test_dump(fact, sample):
    folder = sample / fact["dump"]
    report = iscope.analyze(trainer=folder / fact["trainer"], vllm=folder / "vllm.parquet", recipes=RECIPES)
    ratio, (icepop, geometric) = report.mismatch["ratio"], [recipe.figures for recipe in report.recipes]
    assert (report.coverage.rollouts_analyzed, report.coverage.tokens_scored) == (fact["rollouts"], fact["tokens"])
    for name in ("k1", "k3", "abs_max"):
        assert report.mismatch[name].value == pytest.approx(fact[name], rel=1e-5), name
    for name, figure in {
        "out_half_two": ratio["token"]["outside_half_two"],
        "out_half_five": icepop["masked"]["token_fraction"],
        "g_min": ratio["geometric"]["min"],
        "g_max": ratio["geometric"]["max"],
        "g_out_0996_1001": geometric["masked"]["rollout_fraction"],
        "ess_token": ratio["token"]["ess_fraction"],
        "ess_sequence": ratio["sequence"]["ess_fraction"],
    }.items():
        assert figure.value == pytest.approx(fact[name], rel=1e-6), name


@pytest.mark.parametrize("fact", FACTS["dumps"], ids=lambda fact: f"{fact['dump']}/{fact['trainer']}")
def test_range_of_the_sequence_ratio(fact, sample):
    folder = sample / fact["dump"]
    report = iscope.analyze(trainer=folder / fact["trainer"], vllm=folder / "vllm.parquet", recipes=[])
    sequence = report.mismatch["ratio"]["sequence"]
    assert log(sequence["min"].value) == pytest.approx(fact["s_min"], abs=1e-5)
    assert log(sequence["max"].value) == pytest.approx(fact["s_max"], abs=1e-5)


@pytest.mark.parametrize("dump", sorted({(fact["dump"], fact["trainer"]) for fact in FACTS["steps"]}))
def test_steps(dump, sample):
    name, trainer = dump
    report = iscope.analyze(trainer=sample / name / trainer, vllm=sample / name / "vllm.parquet", recipes=[])
    facts = [fact for fact in FACTS["steps"] if (fact["dump"], fact["trainer"]) == dump]
    assert [row["value"] for row in report.breakdowns["step"]] == [fact["step"] for fact in facts]
    for row, fact in zip(report.breakdowns["step"], facts, strict=True):
        assert (row["rollouts"], row["tokens"]) == (fact["rollouts"], fact["tokens"])
        for figure, expected in {
            "k1": "k1",
            "k3": "k3",
            "abs_max": "abs_max",
            "ess_token_fraction": "ess_token",
            "ess_sequence_fraction": "ess_sequence",
        }.items():
            assert row[figure].value == pytest.approx(fact[expected], rel=1e-5), figure
