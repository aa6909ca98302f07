"""Bounds on log-ratios of tokens and rollouts, and the options behind them."""

from __future__ import annotations

import math

import pytest

from iscope.recipes import names, parse
from iscope.recipes.bounds import TRUNCATION, bands
from iscope.recipes.fit import fitted
from iscope.recipes.model import Level, Signs

INF = math.inf


def told(spec):
    return [(band.rule, str(band.level), band.low, band.high) for band in bands(parse(spec))]


def near(*wanted):
    return [(rule, level, pytest.approx(low), pytest.approx(high)) for rule, level, low, high in wanted]


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("none", []),
        ("trl/sequence_mask:clip_max=3", [("sequence_mask", "sequence", -INF, math.log(3))]),
        ("trl/sequence_mask:clip_max=none", []),
        ("trl/token_truncate:clip_min=0.5,clip_max=2", [(TRUNCATION, "token", math.log(0.5), math.log(2))]),
        ("prime-rl/seq_tis:2", [(TRUNCATION, "sequence", -INF, math.log(2))]),
        (
            "prime-rl/mis_po",
            [
                ("geo_mask", "geometric", math.log(0.996), math.log(1.001)),
                ("token_mask", "token", math.log(0.5), math.log(2)),
            ],
        ),
        # verl bounds k1 = -d by logs of its pair, so that its lower bound is the upper one of the ratio.
        (
            "verl/rollout_rs:option=seq_sum_k1,threshold=0.5_4",
            [("seq_sum_k1", "sequence", math.log(0.25), math.log(2))],
        ),
        # A bound beyond the limits of the exponent never acts.
        ("skyrl/product:1e-10,2", [("product", "sequence", -INF, math.log(2))]),
        # On a probability difference, on extremes, on other quantities.
        ("prime-rl/ipo:max_importance_ratio=2", [(TRUNCATION, "token", -INF, math.log(2))]),
        ("skyrl/outlier", []),
        ("verl/rollout_rs:option=seq_mean_k3,threshold=0.1", []),
    ],
)
def test_bands(spec, wanted):
    assert told(spec) == near(*wanted)


def test_signs():
    (band,) = bands(parse("off_policy_sequence_mask:0.1"))
    assert band.signs is Signs.NEGATIVE
    assert (band.level, band.low, band.high) == (Level.GEOMETRIC, pytest.approx(-0.1), INF)


def moved(spec, low=-0.02, high=0.03):
    recipe = parse(spec)
    return fitted(recipe, [(band, low, high) for band in bands(recipe)])


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("prime-rl/mis_po", {"geo_mask_low": 0.9801, "geo_mask_high": 1.0305, "token_mask_low": 0.9801}),
        ("trl/sequence_mask", {"clip_min": None, "clip_max": 1.0305}),
        ("trl/token_mask:clip_min=0.5", {"clip_min": 0.5, "clip_max": 1.0305}),
        ("geometric_mask", {"low": 0.9801, "high": 1.0305}),
        ("verl/rollout_is:level=sequence,threshold=2", {"threshold": 2.0}),
        ("verl/rollout_is:level=sequence", {"threshold": 1.0305}),
        ("verl/rollout_rs:option=seq_mean_k1", {"threshold": "0.9704_1.0203"}),
        ("off_policy_sequence_mask", {"delta": 0.02}),
        ("slime/icepop", {"clip_high": 1.0305}),
        ("none", {}),
    ],
)
def test_fitted_options(spec, wanted):
    found = moved(spec)
    for name, value in wanted.items():
        assert found.options[name] == value, name
    changed = {name for name, value in found.options.items() if value != parse(spec).options[name]}
    assert changed == set(found.fitted)
    assert parse(found.spec).options == found.options


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize(("low", "high"), [(-0.0213, 0.0307), (-3.21, 2.34), (0.0, 0.0), (-40.0, 30.0)])
def test_every_recipe_is_put_where_it_is_wanted(name, low, high):
    """Ends that a recipe has lie outside the wanted place, and close to it, unless its row fixes them."""
    recipe = parse(name)
    before = bands(recipe)
    found = fitted(recipe, [(band, low, high) for band in before])
    assert parse(found.spec).options == found.options
    if not found.fitted:
        assert found is recipe
        return
    after = {(band.rule, band.index): band for band in bands(found)}
    for band in before:
        moved_to = after.get((band.rule, band.index))
        if moved_to is None:  # the wanted place is beyond the limits of the exponent
            assert max(-low, high) > 10
            continue
        if moved_to.low not in (-INF, band.low):
            assert moved_to.low <= low + 1e-9
        if moved_to.high not in (INF, band.high):
            assert moved_to.high >= high - 1e-9


def test_what_the_user_gave_stays():
    recipe = parse("prime-rl/mis_po:geo_mask_low=0.996,token_mask_high=2")
    found = fitted(recipe, [(band, -0.02, 0.03) for band in bands(recipe)])
    assert found.fitted == ("geo_mask_high", "token_mask_low")
    assert (found.options["geo_mask_low"], found.options["token_mask_high"]) == (0.996, 2.0)


def test_each_listed_filter_has_its_own_bounds():
    recipe = parse("verl/rollout_rs:option=seq_mean_k1,token_k1")
    wanted = [(band, -0.01, 0.02) if band.rule == "seq_mean_k1" else (band, -0.3, 0.4) for band in bands(recipe)]
    mean, token = bands(fitted(recipe, wanted))
    assert (mean.low, mean.high) == (pytest.approx(-0.01, abs=1e-3), pytest.approx(0.02, abs=1e-3))
    assert (token.low, token.high) == (pytest.approx(-0.3, abs=1e-2), pytest.approx(0.4, abs=1e-2))
