"""The grammar of sweeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iscope.errors import UsageError
from iscope.recipes.grammar import parse
from iscope.recipes.sweep import Sweep, expand, read_sweep


def specs(recipes, sweeps):
    named = [replace(parse(recipe), named=True) for recipe in recipes]
    return [setting.spec for setting in expand(named, sweeps).recipes]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("clip_max=1.5,2,none", ("1.5", "2", "none")),
        ("clip_max = 2", ("2",)),
        ("clip_min=0.1:0.9:5", ("0.1", "0.3", "0.5", "0.7", "0.9")),
        ("clip_max=1:100:3:log", ("1", "10", "100")),
        ("clip_max=2:1:3", ("2", "1.5", "1")),
        ("clip_max=1.5,2:4:2,2", ("1.5", "2", "4")),
    ],
)
def test_values(text, values):
    assert read_sweep(text) == Sweep(text.partition("=")[0].strip(), values)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("clip_max", "a sweep is OPTION=VALUE"),
        ("=1", "a sweep is OPTION=VALUE"),
        ("clip_max=1,,2", "empty value"),
        ("clip_max=1:2", "is not LOW:HIGH:COUNT"),
        ("clip_max=1:x:3", "is not LOW:HIGH:COUNT"),
        ("clip_max=1:2:3:lin", "is not LOW:HIGH:COUNT"),
        ("clip_max=1:2:1", "at least 2 values"),
        ("clip_max=2:2:3", "two different ends"),
        ("clip_max=0:2:3:log", "ends above 0"),
    ],
)
def test_malformed(text, said):
    with pytest.raises(UsageError, match=said):
        read_sweep(text)


def test_every_combination_recipe_by_recipe():
    assert specs(["none", "trl/token_mask"], ["clip_max=2,3", "clip_min=0.1,0.5"]) == [
        "none",
        "trl/token_mask:clip_min=0.1,clip_max=2",
        "trl/token_mask:clip_min=0.5,clip_max=2",
        "trl/token_mask:clip_min=0.1,clip_max=3",
        "trl/token_mask:clip_min=0.5,clip_max=3",
    ]


def test_any_name_of_the_option():
    assert specs(["trl/token_mask"], ["vllm_importance_sampling_clip_max=2"]) == specs(
        ["trl/token_mask"], ["clip_max=2"]
    )


def test_given_options_stay():
    assert specs(["trl/token_mask:clip_min=0.25"], ["clip_max=2"]) == ["trl/token_mask:clip_min=0.25,clip_max=2"]


def test_what_a_default_recipe_is_given_gives_way():
    found = expand([parse("trl/sequence_mask:clip_max=3")], ["clip_max=2,5"])
    assert [setting.options["clip_max"] for setting in found.recipes] == [2.0, 5.0]


def test_impossible_combinations_are_counted():
    found = expand([parse("trl/token_mask")], ["clip_max=0.5,2", "clip_min=0.4,1"])
    assert found.skipped == {"trl/token_mask": 1}
    assert "clip_min must be below clip_max" in found.why["trl/token_mask"]
    assert len(found.recipes) == 3


def test_a_configuration_stays_as_it_is():
    own = replace(parse("trl/token_mask"), like="trl:args.json")
    found = expand([own, parse("trl/sequence_mask")], ["clip_max=2,3"])
    assert found.recipes[0] is own
    assert found.swept == (False, True, True)


@pytest.mark.parametrize(
    ("recipes", "sweeps", "said"),
    [
        (["none"], ["clip_max=2"], "no recipe has the option 'clip_max'"),
        (["trl/token_mask"], ["clip_mx=2"], "Did you mean 'clip_max'"),
        (["trl/token_mask"], ["clip_max=2", "vllm_importance_sampling_clip_max=3"], "swept twice"),
        (["trl/token_mask:clip_max=3"], ["clip_max=2"], "given and swept"),
        (["trl/token_mask"], ["clip_max=wide"], "clip_max must be a number or none"),
        (["trl/token_mask"], ["clip_max=2", "clip_min=3"], "no combination of the sweep is possible"),
        (["trl/token_mask"], ["clip_max=2:3:200", "clip_min=0:1:200"], "40,000 settings, more than 20,000"),
    ],
)
def test_refused(recipes, sweeps, said):
    with pytest.raises(UsageError, match=said):
        specs(recipes, sweeps)
