"""Breakdowns against plain Python that groups the rollouts itself."""

from __future__ import annotations

import math

import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import iscope
from iscope.errors import DataError
from iscope.rollouts import RolloutBatch
from tests.reference import breakdowns as reference
from tests.reference import slow
from tests.rollout_factory import rollouts, table_of


def band(d):
    return [0.5 <= math.exp(x) <= 5 for x in d]


def geometric(d):
    return [0.996 <= math.exp(math.fsum(d) / len(d)) <= 1.001] * len(d)


RECIPES = {
    "none": (lambda _: 1.0, lambda d: [True] * len(d)),
    "icepop:0.5,5": (math.exp, band),
    "geometric_mask:0.996,1.001": (lambda _: 1.0, geometric),
}


def scored(drawn):
    found = [r for r in drawn if slow.differences(r)]
    assume(found)
    return found


def check(row, mine):
    """Compare a row with the figures of its own rollouts."""
    for name, expected in reference.headline(mine).items():
        found = row[name] if isinstance(row[name], int) else row[name].value
        assert found == pytest.approx(expected, rel=1e-8, abs=1e-12), name
    assert [entry["spec"].partition(":")[0] for entry in row["recipes"]] == [r.partition(":")[0] for r in RECIPES]
    for entry, (weight, keep) in zip(row["recipes"], RECIPES.values(), strict=True):
        expected = reference.corrected(mine, weight, keep)
        size = entry["effective_batch_size"]
        assert size["value"] == pytest.approx(expected["effective"], rel=1e-8)
        assert size["base"].value == pytest.approx(expected["base"], rel=1e-8)
        assert size["basis"] == "gradient"
        for sign in ("all", "positive", "negative"):
            figure = entry["gradient_left"][sign]
            assert figure.value == (None if expected[sign] is None else pytest.approx(expected[sign], rel=1e-8))
            assert (figure.why is None) == (figure.value is not None)
        assert entry["kept"] == {"tokens": expected["kept_tokens"], "rollouts": expected["kept_rollouts"]}
        assert entry["masked"]["rollout_fraction"].value == pytest.approx(expected["masked_rollouts"])


def broken_down(drawn, by, **columns):
    table = table_of(drawn).with_columns(**{name: pl.Series(values) for name, values in columns.items()})
    return iscope.analyze(table, recipes=list(RECIPES), by=[by]).breakdowns


@given(rollouts(min_size=1, unusable=True))
def test_by_step(drawn):
    mine = scored(drawn)
    rows = broken_down(drawn, "step")["step"]
    assert [row["value"] for row in rows] == sorted({r["step"] for r in mine})
    for row in rows:
        check(row, [r for r in mine if r["step"] == row["value"]])


@given(rollouts(min_size=1), st.data())
def test_by_lag(drawn, data):
    mine = scored(drawn)
    for r in drawn:
        r["policy"], r["trainer"] = data.draw(st.integers(0, 3)), r["trainer"]
        r["version"] = r["policy"] + data.draw(st.integers(-1, 11))
    rows = broken_down(
        drawn, "lag", policy_version=[r["policy"] for r in drawn], trainer_version=[r["version"] for r in drawn]
    )["lag"]
    assert [row["value"] for row in rows] == sorted({r["version"] - r["policy"] for r in mine})
    for row in rows:
        check(row, [r for r in mine if r["version"] - r["policy"] == row["value"]])


@given(rollouts(min_size=1, unusable=True))
def test_by_length(drawn):
    mine = scored(drawn)
    buckets = {1: "1", 2: "2-3", 3: "2-3", **dict.fromkeys(range(4, 8), "4-7"), **dict.fromkeys(range(8, 16), "8-15")}
    name_of = {id(r): buckets[len(slow.differences(r))] for r in mine}
    rows = broken_down(drawn, "length")["length"]
    order = [name for name in ("1", "2-3", "4-7", "8-15") if name in name_of.values()]
    assert [row["value"] for row in rows] == order
    for row in rows:
        check(row, [r for r in mine if name_of[id(r)] == row["value"]])


@pytest.mark.parametrize("by", ["group", "env"])
@given(drawn=rollouts(min_size=1), data=st.data())
def test_by_group_and_by_a_column_of_words_with_nulls(by, drawn, data):
    mine = scored(drawn)
    for r in drawn:
        r["word"] = data.draw(st.sampled_from(["2", "10", None]))
    column = "group_id" if by == "group" else by
    table = pl.Series([r["word"] for r in drawn], dtype=pl.String)
    rows = broken_down(drawn, by, **{column: table})[by]
    values = {r["word"] for r in mine}
    assert [row["value"] for row in rows] == [value for value in ("2", "10", None) if value in values]
    for row in rows:
        check(row, [r for r in mine if r["word"] == row["value"]])


def table(**columns):
    logprobs = {
        "trainer_logprobs": [[-1.0, -2.0], [-0.5], [-1.5]],
        "inference_logprobs": [[-1.5, -1.0], [-0.5], [-1.0]],
    }
    return pl.DataFrame(logprobs | {"loss_mask": [[1, 1], [1], [1]]} | columns)


def values(by, **columns):
    report = iscope.analyze(table(**columns), recipes=["none"], by=[by])
    return [row["value"] for row in report.breakdowns[by]]


def test_values_of_every_type():
    assert values("x", x=[3, None, 1]) == [1, 3, None]
    assert values("x", x=[True, None, False]) == ["false", "true", None]
    assert values("x", x=[0.5, None, 0.25]) == ["0.25", "0.5", None]
    assert values("x", x=[0.5, float("nan"), 0.25]) == ["0.25", "0.5", "nan"]
    assert values("x", x=["b", None, "a"]) == ["a", "b", None]
    assert values("x", x=["10", "9", "a"]) == ["10", "9", "a"]
    assert values("group", group_id=[10, 9, 100]) == ["9", "10", "100"]
    assert values("policy_version", policy_version=[[1, 2], [3], [3]]) == ["1.5", "3.0"]


def test_by_lag_of_tokens_and_without_a_version():
    policy, trainer = [[1, 2], [3], [None]], [3, 3, 3]
    assert values("lag", policy_version=policy, trainer_version=trainer) == [0, 2, None]


def test_rows_say_why_something_is_absent():
    (row,) = iscope.analyze(table(env=["a"] * 3), recipes=["none"], by=["env"]).breakdowns["env"]
    assert row["reward"].why == "the dump has no reward column"
    assert row["zero_advantage"].why == "the dump has no advantage per rollout"
    (entry,) = row["recipes"]
    assert entry["gradient_left"]["all"].why == "the dump has no advantages"
    assert (entry["effective_batch_size"]["value"], entry["effective_batch_size"]["basis"]) == (3.0, "weights")


def test_reward_is_a_mean_over_those_that_have_one():
    rows = iscope.analyze(table(env=["a", "a", "b"], reward=[1.0, None, None]), recipes=[], by=["env"]).breakdowns[
        "env"
    ]
    assert [row["reward"].value for row in rows] == [1.0, None]
    assert rows[1]["reward"].why == "all missing"


def test_a_recipe_that_cannot_be_replayed_has_no_entry():
    rows = iscope.analyze(table(step=[1, 2, 2]), recipes=["trl/none:beta=0.1", "none"]).breakdowns["step"]
    assert [[entry["spec"] for entry in row["recipes"]] for row in rows] == [["none"], ["none"]]


@given(rollouts(min_size=1))
def test_a_single_part_has_the_figures_of_the_report(drawn):
    scored(drawn)
    specs = [*RECIPES, "trl/sequence_mask", "trl/token_truncate:clip_max=2", "prime-rl/seq_mis"]
    report = iscope.analyze(table_of(drawn).with_columns(env=pl.lit("a")), recipes=specs, by=["env"])
    (row,) = report.breakdowns["env"]
    for name in ("k1", "k3", "abs_max", "minus_log_p"):
        assert row[name].value == pytest.approx(report.mismatch[name].value)
    for entry, recipe in zip(row["recipes"], report.recipes, strict=True):
        figures = recipe.figures
        assert entry["spec"] == recipe.spec
        assert entry["kept"] == figures["kept"]
        assert entry["masked"]["rollout_fraction"] == figures["masked"]["rollout_fraction"]
        assert entry["effective_batch_size"]["basis"] == figures["effective_batch_size"]["basis"]
        size, whole = entry["effective_batch_size"], figures["effective_batch_size"]
        assert (size["value"], size["base"].value) == pytest.approx((whole["value"], whole["base"].value))
        for sign, figure in entry["gradient_left"].items():
            expected = figures["gradient_left"][sign]
            assert figure.why == expected.why
            assert figure.value == (None if expected.value is None else pytest.approx(expected.value))


def test_step_and_lag_come_unasked_where_there_are_several():
    def keys(**columns):
        return list(iscope.analyze(table(**columns), recipes=["none"]).breakdowns)

    assert keys(step=[1, 1, 1], policy_version=[1, 1, 1], trainer_version=[2, 2, 2]) == []
    assert keys(step=[1, 1, 2], policy_version=[1, 1, 1], trainer_version=[2, 2, 2]) == ["step"]
    assert keys(step=[1, 1, 1], policy_version=[1, 1, 2], trainer_version=[2, 2, 2]) == ["lag"]
    assert keys(step=[1, 2, 3], policy_version=[1, 1, 2], trainer_version=[2, 2, 2]) == ["step", "lag"]


@pytest.mark.parametrize(
    ("by", "columns", "message"),
    [
        ("envv", {"env": ["a"] * 3}, "frame: there is no column 'envv'. Did you mean 'env'?"),
        ("stpe", {"global_step": [1] * 3}, "frame: there is no column 'stpe'. Did you mean 'step'?"),
        ("lag", {"policy_version": [1] * 3}, "frame: there is no column 'trainer_version'."),
        ("group", {}, "frame: there is no column 'group_id'."),
        ("step", {}, "frame: there is no column 'step'."),
        ("x", {"x": [[1], [2], [3]]}, "frame: column 'x' is large_list<item: int64>; name one with a single value"),
        (
            "lag",
            {"policy_version": ["a"] * 3, "trainer_version": [1] * 3},
            "there is no lag to break the figures down by: policy_version is no number.",
        ),
    ],
)
def test_a_key_that_is_not_there(by, columns, message):
    with pytest.raises(DataError) as caught:
        iscope.analyze(table(**columns), recipes=["none"], by=[by])
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_computed_keys_need_no_column_of_their_name():
    report = iscope.analyze(table(group_id=[1, 1, 2]), recipes=["none"], by=["length", "p", "group"])
    assert [row["value"] for row in report.breakdowns["group"]] == ["1", "2"]
    assert [row["tokens"] for row in report.breakdowns["length"]] == [2, 2]


def test_ten_thousand_groups():
    groups = 10_000
    batch = RolloutBatch.from_lists(
        [[-1.0, -0.5]] * groups,
        [[-1.25, -0.25]] * groups,
        advantage=[1.0, -1.0] * (groups // 2),
        columns={"group_id": [str(index) for index in range(groups)]},
    )
    rows = iscope.analyze(batch, by=["group"]).breakdowns["group"]
    assert [row["value"] for row in rows] == [str(index) for index in range(groups)]
    assert rows[7]["recipes"][0]["effective_batch_size"]["value"] == 1


def test_policies_that_agree_have_a_k1_of_plain_zero():
    logprobs = [[-0.5, -0.25]] * 24
    frame = pl.DataFrame(
        {"rollout_id": range(24), "step": [0, 1] * 12, "trainer_logprobs": logprobs, "inference_logprobs": logprobs}
    )
    for row in iscope.analyze(frame).breakdowns["step"]:
        assert (row["k1"].value, math.copysign(1.0, row["k1"].value)) == (0.0, 1.0)
