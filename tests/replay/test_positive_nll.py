"""The term on the tokens of rewarded rollouts, over whole dumps: scopes of batches, unscored tokens, absent rewards."""

from __future__ import annotations

import math

import polars as pl
import pytest

import iscope
from iscope.errors import DataError, UsageError
from tests.contract_cases import batch_of, ragged

SPEC = "nemo-rl/none:positive_example_nll_weight=0.3"
LISTS = ragged(masked=0.0)
REWARDS = (1.0, 2.0, -1.0, None, 0.5, 0.0, 1.0, math.nan)
STEPS = (0, 0, 0, 1, 1, 1, 1, 1)


def dump_at(path, rewards=REWARDS, **changed):
    lists = LISTS | changed
    frame = pl.DataFrame({name: lists[name] for name in lists})
    columns = {"rollout_id": [f"r{row}" for row in range(frame.height)], "step": STEPS}
    if rewards is not None:
        columns["reward"] = pl.Series(rewards, dtype=pl.Float32, strict=False)
    frame.with_columns(**{name: pl.Series(name, values) for name, values in columns.items()}).write_parquet(path)
    return str(path)


def difference(dump, **options):
    """Loss by batch and coefficient of each token, of the recipe less those without the term."""
    found, plain = (iscope.replay(dump, recipe=text, precision="float64", **options) for text in (SPEC, "nemo-rl/none"))
    loss = {batch: value - plain.loss[batch] for batch, value in found.loss.items()}
    rows = zip(*(each.to_polars()["coefficient"].to_list() for each in (found, plain)), strict=True)
    return loss, [[None if x is None else x - y for x, y in zip(*row, strict=True)] for row in rows]


def expected(rows, lists=LISTS, unscored=()):
    """The same of one batch of rollouts, from its rewarded ones; unscored tokens stay in the count."""
    good = [row for row in rows if REWARDS[row] is not None and REWARDS[row] > 0]
    tokens = sum(len(lists["current_logprobs"][row]) for row in good) + 1e-8
    places = [(row, t) for row in good for t in range(len(lists["current_logprobs"][row])) if (row, t) not in unscored]
    loss = -0.3 * math.fsum(lists["current_logprobs"][row][t] for row, t in places) / tokens
    return loss, {place: -0.3 / tokens for place in places}


@pytest.mark.parametrize(
    ("scope", "batches"),
    [("all", {"all": range(8)}), ("step", {0: range(3), 1: range(3, 8)}), (5, {0: range(5), 1: range(5, 8)})],
)
def test_the_term_is_a_mean_over_the_rewarded_tokens_of_each_batch(tmp_path, scope, batches):
    loss, coefficient = difference(dump_at(tmp_path / "a.parquet"), batch=scope)
    wanted = {label: expected(rows) for label, rows in batches.items()}
    assert loss == pytest.approx({label: value for label, (value, _) in wanted.items()}, rel=1e-6)
    slopes = {place: slope for _, found in wanted.values() for place, slope in found.items()}
    for row, values in enumerate(coefficient):
        assert values == pytest.approx([slopes.get((row, t), 0.0) for t in range(len(values))], rel=1e-6, abs=1e-12)


def test_unscored_tokens_stay_in_the_count(tmp_path):
    inference = [list(row) for row in LISTS["inference_logprobs"]]
    inference[0][1] = math.nan
    loss, coefficient = difference(dump_at(tmp_path / "a.parquet", inference_logprobs=inference))
    wanted, _ = expected(range(8), unscored={(0, 1)})
    assert loss["all"] == pytest.approx(wanted, rel=1e-6)
    assert coefficient[0][1] is None


def test_the_metric_and_the_figures(tmp_path):
    dump = dump_at(tmp_path / "a.parquet")
    with_term, without = iscope.analyze(dump, recipes=[SPEC, "nemo-rl/none"]).recipes
    assert with_term.framework["positive_nll_loss"].value == pytest.approx(expected(range(8))[0] / 0.3, rel=1e-6)
    assert without.framework["positive_nll_loss"].value == 0.0
    assert with_term.figures == without.figures


def test_without_rewards_there_is_no_such_loss(tmp_path):
    dump = dump_at(tmp_path / "a.parquet", rewards=None)
    entry = iscope.analyze(dump, recipes=[SPEC]).recipes[0]
    assert "reward" in entry.why
    with pytest.raises(DataError, match=r"there is no column 'reward', which nemo-rl/none:.* --columns reward=NAME"):
        iscope.replay(dump, recipe=SPEC)
    iscope.replay(dump, recipe="nemo-rl/none")


def test_rewards_that_no_rollout_has(tmp_path):
    loss, coefficient = difference(dump_at(tmp_path / "a.parquet", rewards=(0.0,) * 8))
    assert loss == {"all": 0.0}
    assert {x for row in coefficient for x in row} == {0.0}


def test_a_batch_in_memory_has_its_rewards():
    batch = batch_of(LISTS)
    assert iscope.replay(batch, recipe=SPEC).loss["all"] > iscope.replay(batch, recipe="nemo-rl/none").loss["all"]


def test_a_negative_weight_is_refused():
    with pytest.raises(UsageError, match="positive_example_nll_weight must not be below 0"):
        iscope.replay(batch_of(LISTS), recipe="nemo-rl/none:positive_example_nll_weight=-1")
