"""Variance ratio and sampler check: against plain loops, and on real dumps whose making is known."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import iscope
from tests.reference.bootstrap import variance_ratio

FRESH = [
    "base/trainer_fp32_lag0",
    "base/trainer_bf16_lag0",
    "train_sync/trainer_fp32",
    "train_sync/trainer_bf16",
    "engine_fp16/trainer_fp32",
    "engine_int8/trainer_fp32",
    "engine_int8/trainer_bf16",
    "temp07_raw/trainer_fp32",
    "temp07_processed/trainer_fp32",
    "temp07_processed/trainer_fp32_t07",
]
UNSEEN = [f"lagged/trainer_fp32_lag{lag}" for lag in (1, 4, 8)]
TRAINED_ON = [f"base/trainer_fp32_lag{lag}" for lag in (1, 2, 4, 8)] + [
    "base/trainer_bf16_lag8",
    "train_async/trainer_fp32",
]


def mismatch(sample, name):
    folder, trainer = name.split("/")
    return iscope.analyze(
        trainer=sample / folder / f"{trainer}.parquet", vllm=sample / folder / "vllm.parquet", recipes=[]
    ).mismatch


@pytest.mark.parametrize("name", FRESH + UNSEEN)
def test_fresh_and_unseen_rollouts(sample, name):
    found = mismatch(sample, name)
    ratio, check = found["variance_ratio"], found["sampler_check"]
    assert 0.85 < ratio.value < 1.2
    assert ratio.low < 1 < ratio.high
    assert "message" not in check
    if name in UNSEEN:
        assert check["value"] is None
        assert "lag 0" in check["why"]
    else:
        assert check["value"] == pytest.approx(1, abs=0.01)
        assert check["low"] < check["value"] < check["high"]


@pytest.mark.parametrize("name", TRAINED_ON)
def test_rollouts_that_were_trained_on(sample, name):
    found = mismatch(sample, name)
    assert 9 <= found["variance_ratio"].value <= 21
    assert found["variance_ratio"].low is None or found["variance_ratio"].low > 4
    assert "message" not in found["sampler_check"]


def test_log_ratios_that_are_rounding(sample):
    found = mismatch(sample, "engine_fp32/trainer_fp32")
    assert found["variance_ratio"].value is None
    assert "rounding" in found["variance_ratio"].why
    assert "message" not in found["sampler_check"]


def test_by_lag(sample):
    folder = sample / "train_async"
    report = iscope.analyze(trainer=folder / "trainer_fp32.parquet", vllm=folder / "vllm.parquet", recipes=[])
    fresh, one, three = (row["variance_ratio"] for row in report.breakdowns["lag"])
    assert fresh.low < 1 < fresh.high
    assert (one.low, three.low) > (2, 5)


def table(trainer, inference):
    floats = pl.List(pl.Float64)
    return pl.DataFrame(
        {
            "rollout_id": [f"r{i}" for i in range(len(trainer))],
            "trainer_logprobs": trainer,
            "inference_logprobs": inference,
            "loss_mask": [[True] * len(row) for row in trainer],
        },
        schema_overrides={"trainer_logprobs": floats, "inference_logprobs": floats},
    )


def noisy(rollouts=80, tokens=40, noise=0.05, seed=3):
    random = np.random.default_rng(seed)
    inference = -random.exponential(1.2, (rollouts, tokens)) - 0.5
    return inference + random.normal(-(noise**2) / 2, noise, inference.shape), inference


@pytest.mark.parametrize("noise", [0.02, 0.5, 3.0])
def test_against_plain_loops(noise):
    trainer, inference = noisy(noise=noise)
    trainer = np.minimum(trainer, 0)
    found = iscope.analyze(table(trainer.tolist(), inference.tolist()), recipes=[], precision="float64").mismatch
    assert found["variance_ratio"].value == pytest.approx(variance_ratio((trainer - inference).tolist()), rel=1e-9)


def test_sums_whose_squares_overflow():
    trainer, inference = noisy()
    inference[3], inference[60, 5] = -800.0, -700.0
    found = iscope.analyze(table(trainer.tolist(), inference.tolist()), recipes=[]).mismatch["variance_ratio"]
    assert math.isfinite(found.value)
    assert found.value == pytest.approx((40**2 + 1) / 41)  # 41 ratios at the exponent limit are all there is
    assert found.low is None


def check_of(trainer, inference):
    return iscope.analyze(table(trainer.tolist(), inference.tolist()), recipes=[]).mismatch["sampler_check"]


def test_truncated_support_is_named_where_its_shape_is_there():
    trainer, inference = noisy()
    mass = np.where(np.random.default_rng(0).random(inference.shape) < 0.4, 1.0, 0.9)
    check = check_of(trainer, inference - np.log(mass))
    assert check["high"] < 0.98
    assert "not sampled from the logged probabilities" in check["message"]
    assert "truncated support" in check["message"]


def test_other_shapes_are_not_called_truncated_support():
    trainer, inference = noisy()
    heavy = np.random.default_rng(0).random(inference.shape) < 0.1
    check = check_of(np.where(heavy, trainer - 6.0, trainer), inference)
    assert check["high"] < 0.98
    assert check["message"] == "the tokens were not sampled from the logged probabilities"
    above = check_of(trainer + 0.06, inference)
    assert above["low"] > 1.02
    assert "truncated" not in above["message"]


def test_a_small_shift_and_a_mean_inside_its_interval_say_nothing():
    trainer, inference = noisy()
    assert "message" not in check_of(trainer - 0.015, inference)  # told apart from 1, but by less than 0.02
    trainer, inference = noisy(rollouts=12, tokens=3, noise=0.4)
    wide = check_of(np.minimum(trainer, 0), inference)
    assert wide["low"] < 1 < wide["high"]
    assert "message" not in wide


def test_without_an_interval_it_says_nothing():
    trainer, inference = noisy(rollouts=5)
    check = check_of(trainer - 0.3, inference)
    assert check["value"] < 0.8
    assert "message" not in check
    assert check["rollouts"] == 5


def test_the_terminal_says_it(capsys):
    from iscope.render import renderer

    trainer, inference = noisy()
    spoken = iscope.analyze(table((trainer - 0.1).tolist(), inference.tolist()), recipes=[])
    silent = iscope.analyze(table(trainer.tolist(), inference.tolist()), recipes=[])
    render = renderer("terminal")
    for width in (60, 80, 120):
        assert "SAMPLER CHECK" in render(spoken, width=width)
        assert "SAMPLER CHECK" not in render(silent, width=width)
        assert all(len(line) <= width for line in render(spoken, width=width).splitlines())
