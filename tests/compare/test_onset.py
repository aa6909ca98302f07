"""What moved first: made-up runs with a known culprit, and healthy ones where nothing did."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.findings.factory import healthy, noise_of

STEPS = 15


def run(seed=0, **options):
    return healthy(seed, groups=4 * STEPS, steps=STEPS, **{"length": 120, "spread": 0.2} | options)


def noisier(rollouts, first, factor, rows=lambda row: True):
    """The trainer further from the engine from a step on."""
    rng = np.random.default_rng(5)
    trainer = [
        v + noise_of(v, 0.05 * factor, rng) if step >= first and rows(row) else t
        for row, (t, v, step) in enumerate(
            zip(rollouts.trainer, rollouts.inference, rollouts.columns["step"], strict=True)
        )
    ]
    return replace(rollouts, trainer=trainer)


def moved(report):
    return [(move["what"], move["step"]) for move in report.parts["onset"]["moved"]]


@pytest.mark.parametrize("seed", range(4))
def test_nothing_moves_in_a_healthy_run(seed):
    assert moved(run(seed).report()) == []


def test_drift_of_the_engine_from_a_step_on():
    found = dict(moved(noisier(run(), first=8, factor=4).report()))
    assert found["k3"] == found["gap"] == found["abs(d) at q < .1"] == 8
    assert "length" not in found
    assert "-log p" not in found


def test_the_order_tells_what_came_first():
    rollouts = noisier(run(), first=6, factor=4)
    reward = [1.0 if step < 10 else 0.2 for step in rollouts.columns["step"]]
    found = moved(rollouts.with_columns(reward=reward).report())
    assert found[0] == ("k3", 6)
    assert found[-1] == ("reward", 10)
    assert [step for _, step in found] == sorted(step for _, step in found)


def test_two_steps_are_no_onset():
    rollouts = run()
    rng = np.random.default_rng(5)
    steps = rollouts.columns["step"]
    trainer = [
        v + noise_of(v, 0.3, rng) if step in (8, 9) else t
        for t, v, step in zip(rollouts.trainer, rollouts.inference, steps, strict=True)
    ]
    assert "k3" not in dict(moved(replace(rollouts, trainer=trainer).report()))


def test_the_gradient_of_one_sign_that_a_recipe_eats():
    rollouts = run()
    rng = np.random.default_rng(5)
    rows = zip(
        rollouts.trainer, rollouts.inference, rollouts.columns["step"], rollouts.columns["advantage"], strict=True
    )
    trainer = [v + noise_of(v, 1.0, rng) if step >= 9 and a < 0 else t for t, v, step, a in rows]
    found = dict(moved(replace(rollouts, trainer=trainer).report(recipes=["none", "trl/sequence_mask:clip_max=3"])))
    assert found["gradient left at A<0 of trl/sequence_mask:clip_min=none,clip_max=3"] == 9


def test_fewer_than_ten_steps_have_none():
    assert "onset" not in healthy(groups=36, steps=9).report().parts
