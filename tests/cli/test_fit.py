"""``--fit`` as a user types it."""

from __future__ import annotations

import json

import pytest

from iscope.cli.app import run


@pytest.fixture
def sides(sample):
    folder = sample / "engine_int8"
    return ["--trainer", str(folder / "trainer_fp32.parquet"), "--vllm", str(folder / "vllm.parquet")]


def test_fitted_bounds_stand_in_the_report(sides, capfd):
    recipes = ["--recipe", "prime-rl/mis_po:token_mask_high=2", "--fit", "keep=.95"]
    assert run(["analyze", *sides, *recipes, "--format", "json"]) == 0
    (found,) = json.loads(capfd.readouterr().out)["recipes"]
    assert found["fitted"] == ["geo_mask_low", "geo_mask_high", "token_mask_low"]
    assert found["options"]["token_mask_high"] == 2
    assert found["masked"]["by_filter"][0]["rollouts_low"] == 2


@pytest.mark.parametrize("text", ["0.95", "keep", "keep=", "keep=1", "keep=95", "keep=nan", "drop=.05", "keep=.9.5"])
def test_what_it_does_not_take(text, sides, capfd):
    assert run(["analyze", *sides, "--recipe", "geometric_mask", "--fit", text]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert "keep=.95" in err
    assert text in err


def test_without_a_recipe_to_fit(sides, capfd):
    assert run(["analyze", *sides, "--fit", "keep=.95"]) == 2
    assert "--recipe" in capfd.readouterr().err
