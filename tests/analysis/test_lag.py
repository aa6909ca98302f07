"""The lag, what the mismatch measures, and its parts, against plain Python."""

from __future__ import annotations

import polars as pl
import pytest

import iscope
from iscope.rollouts import RolloutBatch
from tests.reference import breakdowns as reference

TRAINER = [[-1.0, -0.5], [-2.0, -0.25], [-0.125, -3.0]]
INFERENCE = [[-1.25, -0.5], [-1.0, -0.75], [-0.5, -2.5]]
CURRENT = [[-1.5, -0.375], [-2.0, -1.0], [-0.25, -2.0]]


def report(current=None, by=(), **columns):
    batch = RolloutBatch.from_lists(
        TRAINER, INFERENCE, current_logprobs=current, columns=pl.DataFrame(columns) if columns else None
    )
    return iscope.analyze(batch, recipes=["none"], by=by)


def lag(**columns):
    found = report(**columns).mismatch["lag"]
    return tuple(found[name].value for name in ("min", "mean", "max")), found["rollouts"], found["names"]


@pytest.mark.parametrize(
    ("trainer", "policy", "ends", "known", "names"),
    [
        ([3, 3, 3], [3, 3, 3], (0, 0, 0), 3, "engine"),
        ([3, 4, 9], [2, 2, 2], (1, 10 / 3, 7), 3, "engine + lag"),
        ([3, 4, 5], [3, 2, 5], (0, 2 / 3, 2), 3, "mixed"),
        ([3, None, 5], [3, 2, 5], (0, 0, 0), 2, "unknown"),
        ([3, None, 5], [3, 2, 4], (0, 0.5, 1), 2, "mixed"),
        ([None, None, None], [3, 2, 5], (None, None, None), 0, "unknown"),
        ([1, 4, 5], [2, 4, 9], (-4, -5 / 3, 0), 3, "mixed"),
    ],
)
def test_versions_of_rollouts(trainer, policy, ends, known, names):
    columns = {
        "trainer_version": pl.Series(trainer, dtype=pl.Int64),
        "policy_version": pl.Series(policy, dtype=pl.Int64),
    }
    found, rollouts, named = lag(**columns)
    assert found == pytest.approx(ends) if known else found == ends
    assert (rollouts, named) == (known, names)


def test_versions_of_tokens():
    found, rollouts, names = lag(trainer_version=[7, 7, 8], policy_version=[[5, 7], [4, 4, 7], [8, 8]])
    assert found == pytest.approx((0, (1 + 2 + 0) / 3, 3))
    assert (rollouts, names) == (3, "mixed")
    assert lag(trainer_version=[6, 7, 8], policy_version=[[5, 7], [6, 7], [8, 6]])[2] == "engine + lag"
    assert lag(trainer_version=[6, 7, 8], policy_version=[[6], [7, 7], [8]])[0] == (0, 0, 0)
    assert lag(trainer_version=[6, 7, 8], policy_version=[[6], [], None])[1:] == (1, "unknown")


def test_versions_of_tokens_keep_their_ends_in_the_ledger(tmp_path):
    from iscope.ledger import store

    batch = RolloutBatch.from_lists(TRAINER, INFERENCE, columns={"policy_version": [[5, 7], [4], [8, 9]]})
    iscope.analyze(batch, recipes=["none"], ledger=tmp_path / "l")
    rows = store.load(tmp_path / "l").rows.to_frame().sort("rollout_id")
    assert rows["policy_version_min"].to_list() == [5, 4, 8]
    assert rows["policy_version"].to_list() == [6, 4, 8.5]
    assert rows["policy_version_max"].to_list() == [7, 4, 9]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"policy_version": [1, 2, 3]}, "the dump has no trainer_version"),
        ({"trainer_version": [1, 2, 3]}, "the dump has no policy_version"),
        ({}, "the dump has no trainer_version"),
        ({"trainer_version": ["a", "b", "c"], "policy_version": [1, 2, 3]}, "trainer_version is no number"),
    ],
)
def test_a_missing_version_is_said(columns, why):
    found = report(**columns).mismatch["lag"]
    assert {found[name].why for name in ("min", "mean", "max")} == {why}
    assert found["rollouts"] == 0


def test_versions_that_are_words_are_compared():
    assert report(trainer_version=["a", "b", "c"], policy_version=["a", "b", "c"]).mismatch["lag"]["names"] == "engine"
    assert report(trainer_version=["a", "b", "c"], policy_version=["a", "x", "c"]).mismatch["lag"]["names"] == "mixed"
    assert report().mismatch["lag"]["names"] == "unknown"


def test_parts_with_current_logprobs():
    parts = report(current=CURRENT).mismatch["lag"]["parts"]

    def zipped(a, b):
        return [pair for x, y in zip(a, b, strict=True) for pair in zip(x, y, strict=True)]

    expected = {
        "engine": reference.estimators(zipped(TRAINER, INFERENCE)),
        "lag": reference.estimators(zipped(CURRENT, TRAINER)),
        "total": reference.estimators(zipped(CURRENT, INFERENCE)),
    }
    assert parts.keys() == expected.keys()
    for name, figures in expected.items():
        assert {key: figure.value for key, figure in parts[name].items()} == pytest.approx(figures, rel=1e-12)
    assert parts["total"]["k1"].value == pytest.approx(parts["engine"]["k1"].value + parts["lag"]["k1"].value)


def test_parts_without_current_logprobs():
    parts = report().mismatch["lag"]["parts"]
    assert (parts.value, parts.why) == (None, "on-policy assumed: no current logprobs")


def test_on_policy_is_assumed_only_without_current_logprobs():
    def said(current):
        batch = RolloutBatch.from_lists(TRAINER, INFERENCE, current_logprobs=current, advantage=[1.0, -1.0, 1.0])
        return iscope.analyze(batch, recipes=["prime-rl/ipo"]).assumptions

    assert any("on-policy assumed" in sentence for sentence in said(None))
    assert not any("on-policy assumed" in sentence for sentence in said(CURRENT))


def test_a_current_policy_in_the_trainer_column_is_said():
    said = report(trainer_version=[7, 7, 8], policy_version=[[6, 8], [7, 7], [8, 8]]).assumptions
    assert any(sentence.startswith("in 1 rollouts trainer_version differs from policy_version") for sentence in said)
