"""The mismatch by the probability of the token, and the gap, against the slow reference."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

import iscope
from iscope.rollouts import RolloutBatch
from tests.reference import breakdowns as reference
from tests.reference import slow
from tests.rollout_factory import batch_of, rollouts


def certain(drawn):
    """The same rollouts with every third token all but certain, in the bucket that the factory seldom reaches."""
    for r in drawn:
        for i in range(0, len(r["inference"]), 3):
            r["trainer"][i], r["inference"][i] = -0.0007, -0.0004
    return drawn


def mismatch(drawn, **changes):
    return iscope.analyze(batch_of(drawn), recipes=["none"], **changes).mismatch


def close(figure, expected):
    if expected is None:
        assert figure.value is None
        assert figure.why
    else:
        assert figure.value == pytest.approx(expected, rel=1e-9, abs=1e-15)


@given(rollouts(min_size=1, unusable=True))
def test_by_p(drawn):
    rows, expected = mismatch(certain(drawn))["by_p"], reference.by_p(drawn)
    assert [(row["low"], row["high"]) for row in rows] == reference.BUCKETS
    for row, wanted in zip(rows, expected, strict=True):
        assert row["tokens"] == wanted["tokens"]
        for name in set(wanted) - {"tokens"}:
            close(row[name], wanted[name])


@given(rollouts(min_size=1, unusable=True))
def test_shares_add_up(drawn):
    rows = mismatch(certain(drawn))["by_p"]
    for name in ("token_share", "k3_share", "gradient_share"):
        values = [row[name].value for row in rows]
        assert values == [None] * 4 or sum(values) == pytest.approx(1)


@given(rollouts(min_size=1, unusable=True))
def test_the_gap_lies_in_its_bin(drawn):
    figure, exact = mismatch(certain(drawn))["gap"], reference.gap(drawn)
    if exact is None:
        assert figure.value is None
        assert figure.why in ("no scored token has q below 0.999", "no scored tokens")
        return
    low, high = figure.bin
    assert low * (1 - 1e-9) <= exact <= high * (1 + 1e-9)
    assert low <= figure.value <= high
    assert high - low <= max(0.008 * low, 2**-20)


def test_the_gap_leaves_certain_tokens_out():
    batch = RolloutBatch.from_lists([[-0.0002, -0.9]], [[-0.0008, -0.7]])
    gap = iscope.analyze(batch, recipes=["none"]).mismatch["gap"]
    assert gap.bin[0] <= 0.2 / (1 - 0.4965853) <= gap.bin[1]
    only = iscope.analyze(RolloutBatch.from_lists([[-0.0002]], [[-0.0008]]), recipes=["none"]).mismatch["gap"]
    assert (only.value, only.why) == (None, "no scored token has q below 0.999")


def test_without_advantages_the_share_of_the_gradient_is_absent():
    rows = iscope.analyze(RolloutBatch.from_lists([[-1.0]], [[-1.5]]), recipes=["none"]).mismatch["by_p"]
    assert {row["gradient_share"].why for row in rows} == {"the dump has no advantages"}
    assert rows[1]["k3_share"].value == 1


@given(rollouts(min_size=1, max_size=4))
def test_the_breakdown_by_p_holds_the_same_rows(drawn):
    assume(any(slow.differences(r) for r in drawn))
    report = iscope.analyze(batch_of(drawn), recipes=["none"], by=["p"])
    rows = report.breakdowns["p"]
    assert [row["value"] for row in rows] == ["0-0.1", "0.1-0.5", "0.5-0.9", ">=0.9"]
    assert [{k: v for k, v in row.items() if k != "value"} for row in rows] == report.mismatch["by_p"]


def test_the_gap_of_policies_that_agree_is_zero():
    batch = RolloutBatch.from_lists([[-1.0, -2.0, -0.5]], [[-1.0, -2.0, -0.5]])
    gap = iscope.analyze(batch, recipes=["none"]).mismatch["gap"]
    assert gap.value == 0.0
    assert gap.bin == (0.0, 2.0**-20)
