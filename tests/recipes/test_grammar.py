"""The grammar: what it reads, what it refuses and with which sentence, and the canonical form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from iscope.errors import UsageError
from iscope.recipes import DEFAULT_RECIPES, bind, framework, frameworks, parse
from iscope.recipes.grammar import describe
from iscope.recipes.model import (
    BoundRecipe,
    Constraint,
    Filter,
    Framework,
    Level,
    LogClamp,
    Option,
    Quantity,
    Recipe,
    Reduction,
    Ref,
    WeightRule,
)
from iscope.recipes.options import accepted_names, spell

ROWS = [(table, row) for table in frameworks() for row in table.recipes]
MIN, MAX = "vllm_importance_sampling_clip_min", "vllm_importance_sampling_clip_max"

TRL_LOSS = ", ".join(option.short for option in framework("trl").loss_options)
GENERIC_LOSS = ", ".join(option.short for option in framework("").loss_options)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("none", "none"),
        ("trl/none", "trl/none"),
        ("trl/none:loss_type=dapo", "trl/none"),
        ("icepop", "icepop:low=0.5,high=5"),
        ("icepop:0.5,5", "icepop:low=0.5,high=5"),
        ("icepop:0.2", "icepop:low=0.2,high=5"),
        ("icepop:alpha=0.25,beta=4", "icepop:low=0.25,high=4"),
        ("icepop:none,5", "icepop:low=none,high=5"),
        ("icepop:0.2,high=7.50", "icepop:low=0.2,high=7.5"),
        ("icepop:high=2,low=1e-3", "icepop:low=0.001,high=2"),
        ("icepop:.5,5.", "icepop:low=0.5,high=5"),
        ("icepop:-0.0,+1E+20", "icepop:low=-0,high=1e+20"),
        ("  icepop : 0.5 , high = 5 ", "icepop:low=0.5,high=5"),
        ("tis:cap=3", "tis:high=3"),
        ("geo_mask:0.99,1.01", "geometric_mask:low=0.99,high=1.01,level=none"),
        ("geometric_mask:0.99,1.01,token", "geometric_mask:low=0.99,high=1.01,level=token"),
        ("trl/token_mask", "trl/token_mask:clip_min=none,clip_max=3"),
        ("trl/token_mask:none,none", "trl/token_mask:clip_min=none,clip_max=none"),
        ("trl/token_mask:0.5,2", "trl/token_mask:clip_min=0.5,clip_max=2"),
        ("trl/token_mask:clip_min=0.5,clip_max=5,loss_type=dapo", "trl/token_mask:clip_min=0.5,clip_max=5"),
        (f"trl/token_mask:{MIN}=0.5,{MAX}=5", "trl/token_mask:clip_min=0.5,clip_max=5"),
        ("trl/sequence_mask:vllm_importance_sampling_cap=2", "trl/sequence_mask:clip_min=none,clip_max=2"),
        ("trl/sequence_truncate:min=0.1,cap=2", "trl/sequence_truncate:clip_min=0.1,clip_max=2"),
        ("trl/token_truncate:clip_min=0.8,clip_max=none", "trl/token_truncate:clip_min=0.8,clip_max=none"),
    ],
)
def test_canonical_form(text: str, spec: str) -> None:
    assert parse(text).spec == spec
    assert parse(spec) == parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "There is no recipe ''. Run 'iscope recipes' for the list."),
        ("qqq", "There is no recipe 'qqq'. Run 'iscope recipes' for the list."),
        ("foo/bar", "There is no recipe 'foo/bar'. Run 'iscope recipes' for the list."),
        ("token_mask", "There is no recipe 'token_mask'. Did you mean 'trl/token_mask'?"),
        ("trl/token_msk:0.5", "There is no recipe 'trl/token_msk'. Did you mean 'trl/token_mask'?"),
        ("icepopp", "There is no recipe 'icepopp'. Did you mean 'icepop'?"),
        ("geo_msk", "There is no recipe 'geo_msk'. Did you mean 'geo_mask'?"),
        (
            "trl",
            "'trl' is a framework, not a recipe; its recipes are trl/none, trl/token_truncate, trl/token_mask, "
            "trl/sequence_truncate, trl/sequence_mask.",
        ),
        ("icepop:", "icepop: nothing follows the colon; write 'icepop' alone for its defaults."),
        ("icepop:0.5,,5", "icepop: there is an empty option in '0.5,,5'; separate options with one comma."),
        ("icepop:0.5,5,", "icepop: there is an empty option in '0.5,5,'; separate options with one comma."),
        ("icepop:1,2,3", "icepop takes at most 2 values by position (low, high); '3' is one too many."),
        ("none:3", "none takes no values by position; '3' is one too many."),
        ("icepop:low=0.5,5", "icepop: '5' follows a named option; write it as option=value."),
        (
            "trl/token_mask:clp_max=2",
            f"trl/token_mask has no option 'clp_max'; its options are clip_min, clip_max, {TRL_LOSS}. "
            "Did you mean 'clip_max'?",
        ),
        (
            "icepop:-0.7,0.7",
            "icepop: low and high must not be below 0, but low is -0.7; bounds are ratios, not their logs.",
        ),
        ("trl/none:clip_max=2", f"trl/none has no option 'clip_max'; its options are {TRL_LOSS}."),
        ("none:low=1", f"none has no option 'low'; its options are {GENERIC_LOSS}."),
        ("icepop:=1", f"icepop has no option ''; its options are low, high, {GENERIC_LOSS}."),
        (
            "trl/token_mask:clip_max=2,clip_max=2",
            "trl/token_mask: clip_max is given twice, as clip_max and as clip_max.",
        ),
        ("trl/token_mask:clip_max=2,cap=3", "trl/token_mask: clip_max is given twice, as clip_max and as cap."),
        ("trl/token_mask:1,min=1", "trl/token_mask: clip_min is given twice, by position and as min."),
        ("icepop:low=", "icepop: low must be a number or none, not ''."),
        ("icepop:abc", "icepop: low must be a number or none, not 'abc'."),
        ("icepop:0.5_5.0", "icepop: low must be a number or none, not '0.5_5.0'."),
        ("icepop:1_000,5", "icepop: low must be a number or none, not '1_000'."),
        ("icepop:high=nan", "icepop: high must be a number or none, not 'nan'."),
        ("icepop:high=inf", "icepop: high must be a number or none, not 'inf'."),
        ("icepop:high=-Infinity", "icepop: high must be a number or none, not '-Infinity'."),
        ("icepop:high=1e999", "icepop: high must be a number or none, not '1e999'."),
        ("icepop:high=٣", "icepop: high must be a number or none, not '٣'."),
        ("icepop:high=0x10", "icepop: high must be a number or none, not '0x10'."),
        ("icepop:high==3", "icepop: high must be a number or none, not '=3'."),
        ("icepop:high=None", "icepop: high must be a number or none, not 'None'."),
        ("tis:none", "tis: high must be a number, not none."),
        (
            "geo_mask:level=tokn",
            "geometric_mask: level must be one of none, token, sequence, geometric, not 'tokn'. Did you mean 'token'?",
        ),
        (
            "trl/none:loss_type=none",
            "trl/none: loss_type must be one of dapo, grpo, bnpo, dr_grpo, luspo, cispo, sapo, vespo, not none.",
        ),
        ("icepop:5,0.5", "icepop: low must be below high, but low is 5 and high is 0.5."),
        ("icepop:1,1", "icepop: low must be below high, but low is 1 and high is 1."),
        ("icepop:none,none", "icepop: at least one of low and high must be set, but all are none."),
        (
            "trl/token_mask:clip_min=4",
            "trl/token_mask: clip_min must be below clip_max, but clip_min is 4 and clip_max is 3 by default.",
        ),
        (
            "trl/sequence_truncate:clip_max=none",
            "trl/sequence_truncate: at least one of clip_min and clip_max must be set, but all are none.",
        ),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert str(caught.value) == message
    assert caught.value.exit_code == 2


def test_bound_recipe_holds_values_only() -> None:
    bound = parse("trl/sequence_mask:0.5,2")
    assert bound.weight == WeightRule(Level.SEQUENCE)
    assert bound.filters == (
        Filter("sequence_mask", Quantity.LOG_RATIO, Reduction.SUM, low=0.5, high=2.0, acts_on="rollout"),
    )
    assert bound.options.items() >= {"clip_min": 0.5, "clip_max": 2.0, "loss_type": "dapo"}.items()
    assert (bound.name, bound.framework, bound.named) == ("trl/sequence_mask", "trl", False)


@pytest.mark.parametrize(
    ("text", "level", "rule"),
    [
        ("icepop", Level.TOKEN, Filter("icepop", low=0.5, high=5.0)),
        ("trl/token_mask:0.5,2", Level.TOKEN, Filter("token_mask", low=0.5, high=2.0)),
        (
            "geometric_mask",
            Level.NONE,
            Filter("geometric_mask", Quantity.LOG_RATIO, Reduction.MEAN, low=0.999, high=1.001, acts_on="rollout"),
        ),
    ],
)
def test_masks_filter_and_leave_the_weight_uncut(text: str, level: Level, rule: Filter) -> None:
    bound = parse(text)
    assert bound.weight == WeightRule(level)
    assert bound.filters == (rule,)


def test_truncation_fills_the_weight_rule() -> None:
    assert parse("trl/token_truncate:0.5,2").weight == WeightRule(Level.TOKEN, low=0.5, high=2.0)
    assert parse("trl/sequence_truncate").weight == WeightRule(Level.SEQUENCE, high=3.0)
    assert parse("tis").weight == WeightRule(Level.TOKEN, high=2.0)


def test_a_filter_without_bounds_is_left_out() -> None:
    assert parse("trl/token_mask:none,none").filters == ()
    assert len(parse("trl/token_mask:none,3").filters) == 1


@pytest.mark.parametrize("level", list(Level))
def test_level_option_becomes_a_level(level: Level) -> None:
    assert parse(f"geometric_mask:level={level.value}").weight.level is level


@pytest.mark.parametrize("spec", DEFAULT_RECIPES)
def test_default_recipes(spec: str) -> None:
    assert parse(parse(spec).spec) == parse(spec)


_bounds = st.floats(0, exclude_min=True, allow_infinity=False)
_pairs = _bounds | st.tuples(_bounds, _bounds).map(lambda pair: "_".join(map(spell, sorted(pair))))


def _values(option: Option, above: int | None) -> st.SearchStrategy[Any]:
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "float": st.floats(above, exclude_min=above is not None, allow_nan=False, allow_infinity=False),
        "int": st.integers(-(10**17) if above is None else above + 1, 10**17),
        "bool": st.booleans(),
        "choice": st.sampled_from(option.choices or ("",)),
        "pair": _pairs,
        "names": st.lists(st.sampled_from(option.choices or ("",)), min_size=1, max_size=3, unique=True).map(",".join),
        "pairs": st.lists(_pairs, min_size=1, max_size=3).map(lambda pairs: ",".join(map(spell, pairs))),
    }
    return kinds[option.kind] | st.none() if option.nullable else kinds[option.kind]


def _bind_or_assume(row: Recipe, table: Framework, options: dict[str, Any]) -> BoundRecipe:
    try:
        return bind(row, table, options)
    except UsageError as error:
        assume(not any(describe(rule) in str(error) for rule in (*row.constraints, *table.constraints)))
        assume(row.filter_list is None or "bound" not in str(error))
        assume("below 0 its weights have no logarithm" not in str(error))
        raise


@pytest.mark.parametrize(("table", "row"), ROWS, ids=[row.name for _, row in ROWS])
@given(data=st.data())
def test_round_trip(table: Framework, row: Recipe, data: st.DataObject) -> None:
    known = (*row.options, *table.loss_options)
    chosen = data.draw(st.permutations(known))[: data.draw(st.integers(0, len(known)))]
    limits = {"positive": 0, "above_one": 1}
    rules = [rule for rule in (*row.constraints, *table.constraints) if rule.kind in limits]
    above = {name: limits[rule.kind] for rule in rules for name in rule.options}
    options = {
        data.draw(st.sampled_from(accepted_names(option))): data.draw(_values(option, above.get(option.short)))
        for option in chosen
    }
    bound = _bind_or_assume(row, table, options)
    again = parse(bound.spec)
    assert again == bound
    assert again.spec == bound.spec
    assert all(again.options[option.short] == value for option, value in zip(chosen, options.values(), strict=True))
    if options:
        typed = ",".join(f"{name}={spell(value)}" for name, value in options.items())
        assert parse(f"{row.name}:{typed}") == bound


INVENTED = Framework(
    name="x",
    title="X",
    version="1",
    recipes=(
        Recipe(
            name="x/y",
            summary="s",
            formula="f",
            source="s",
            options=(
                Option("full_low", "low", "float", 1.0, "d", nullable=True),
                Option("full_high", "high", "float", 2.0, "d"),
                Option("steps", "steps", "int", 4, "d"),
            ),
            weight=WeightRule(Level.TOKEN, clamp=LogClamp(low=Ref("low"), high=Ref("high"), of="sum")),
            constraints=(Constraint("at_most", ("low", "high")),),
        ),
    ),
    loss_options=(
        Option("normalise", "norm", "bool", False, "d"),
        Option("delta", "delta", "float", None, "d", nullable=True),
    ),
)


def _invented(**options: Any) -> BoundRecipe:
    return bind(INVENTED.recipes[0], INVENTED, options)


def test_references_are_replaced_at_any_depth() -> None:
    assert _invented(full_low=0.25).weight.clamp == LogClamp(0.25, 2.0, "sum")


def test_loss_options_are_shown_only_where_they_differ() -> None:
    assert _invented(normalise=False).spec == "x/y:low=1,high=2,steps=4"
    assert _invented(delta=1.5, norm=True).spec == "x/y:low=1,high=2,steps=4,norm=true,delta=1.5"
    assert _invented().options == {"low": 1.0, "high": 2.0, "steps": 4, "norm": False, "delta": None}


def test_at_most_allows_equality() -> None:
    assert _invented(low=2).options["low"] == 2.0
    with pytest.raises(UsageError, match=r"^x/y: low must not exceed high, but low is 3 and high is 2 by default\.$"):
        _invented(low=3)


def test_a_whole_number_for_a_float_becomes_a_float() -> None:
    assert isinstance(_invented(high=3).options["high"], float)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"high": float("nan")}, "x/y: high must be a number, not nan."),
        ({"high": float("inf")}, "x/y: high must be a number, not inf."),
        ({"low": True}, "x/y: low must be a number or none, not true."),
        ({"high": "2"}, "x/y: high must be a number, not '2'."),
        ({"high": None}, "x/y: high must be a number, not none."),
        ({"steps": 2.0}, "x/y: steps must be a whole number, not 2."),
        ({"steps": True}, "x/y: steps must be a whole number, not true."),
        ({"norm": 1}, "x/y: norm must be true or false, not 1."),
        ({"norm": "True"}, "x/y: norm must be true or false, not 'True'."),
        ({"low": 1, "full_low": 1}, "x/y: low is given twice, as low and as full_low."),
        ({"lo": 1}, "x/y has no option 'lo'; its options are low, high, steps, norm, delta. Did you mean 'low'?"),
    ],
)
def test_values_from_python_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        _invented(**options)
    assert str(caught.value) == message


def test_a_number_no_float_holds_is_refused() -> None:
    with pytest.raises(UsageError, match="high must be a number, not so large a number"):
        _invented(high=10**400)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("option=token_k1,seq_mean_k3,threshold=0.5_2.0,0.02", ("token_k1,seq_mean_k3", "0.5_2,0.02")),
        ("option=token_k1, seq_mean_k3 ,threshold= 2.50", ("token_k1,seq_mean_k3", "2.5")),
        ("threshold=1e-2,option=token_k3,token_k2,token_k3", ("token_k3,token_k2", "0.01")),
        ("seq_sum_k1,3", ("seq_sum_k1", "3")),
    ],
)
def test_a_piece_without_a_name_continues_a_list(text: str, options: tuple[str, str]) -> None:
    bound = parse(f"verl/rollout_rs:{text}")
    assert (bound.options["option"], bound.options["threshold"]) == options
    assert [rule.name for rule in bound.filters] == options[0].split(",")
    assert parse(bound.spec) == bound


def test_a_pair_is_one_value_and_a_number_alone_another() -> None:
    icepop, truncated = parse("verl/rollout_is:threshold=0.50_2.0"), parse("verl/rollout_is:threshold=2.0")
    assert (icepop.options["threshold"], truncated.options["threshold"]) == ("0.5_2", 2.0)
    assert (icepop.weight.high, icepop.filters[0].low, icepop.filters[0].high) == (None, 0.5, 2.0)
    assert (truncated.weight.high, truncated.filters) == (2.0, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("verl/rollout_rs:option=token_k4", "must be one or more, with commas, of token_k1, "),
        ("verl/rollout_rs:option=token_k1,,seq_sum_k1", "there is an empty option"),
        ("verl/rollout_rs:threshold=1_2_3", "must be numbers above 0 or pairs low_high, with commas, not '1_2_3'."),
        ("verl/rollout_rs:threshold=-1", "must be numbers above 0 or pairs low_high"),
        ("verl/rollout_is:threshold=inf", "must be a number above 0 or two as low_high, not 'inf'."),
        ("verl/rollout_is:threshold=2,3", "'3' follows a named option; write it as option=value."),
    ],
)
def test_pairs_and_lists_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("names", "bounds", "spec"),
    [
        ("token_k2", 0.5, "option=token_k2,threshold=0.5"),
        (["token_k2", "token_k1"], [0.5, "0.5_2"], "option=token_k2,token_k1,threshold=0.5,0.5_2"),
        (("token_k1",), 2, "option=token_k1,threshold=2"),
    ],
)
def test_lists_from_python(names: object, bounds: object, spec: str) -> None:
    table = framework("verl")
    row = next(row for row in table.recipes if row.name == "verl/rollout_rs")
    assert bind(row, table, {"rollout_rs": names, "threshold": bounds}).spec == f"verl/rollout_rs:{spec}"
    with pytest.raises(UsageError):
        bind(row, table, {"threshold": [True]})
