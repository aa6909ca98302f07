"""Effective batch size, gradient left, groups and product left against the slow reference."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given

from iscope.analysis.report import build_report
from iscope.ledger.ledger import LedgerBuilder
from iscope.ledger.measure import measure
from iscope.ledger.plan import Plan
from iscope.recipes.grammar import parse
from iscope.rollouts import RolloutBatch
from tests.reference import gradient, slow
from tests.rollout_factory import rollouts

CASES = [
    ("none", "none", None, None),
    ("trl/token_truncate:clip_min=0.5,clip_max=2", "token_truncate", 0.5, 2.0),
    ("icepop:0.5,5", "token_mask", 0.5, 5.0),
    ("trl/sequence_truncate:clip_min=0.5,clip_max=2", "sequence_truncate", 0.5, 2.0),
    ("trl/sequence_mask", "sequence_mask", None, 3.0),
    ("prime-rl/seq_tis", "sequence_truncate", None, 2.0),
    ("prime-rl/icepop:0.5,5", "token_mask", 0.5, 5.0),
    ("prime-rl/cispo:0.5,2", "token_truncate", 0.5, 2.0),
    ("prime-rl/geo_mask:0.9,1.1", "geometric_mask", 0.9, 1.1),
]


def scored_logprobs(rollout):
    """Float32 trainer logprobs of the scored tokens."""
    return [
        float(np.float32(t))
        for t, v, m in zip(rollout["trainer"], rollout["inference"], rollout["mask"], strict=True)
        if m and all(-9000 < x <= 0.2 for x in (t, v))
    ]


def described(rollout, kind, low, high):
    d = slow.differences(rollout)
    outcome = slow.correct(kind, d, low, high) if d else []
    return {
        "logp": [min(lp, 0.0) for lp in scored_logprobs(rollout)],
        "advantage": rollout["advantage"],
        "group": rollout["step"],
        "s": math.fsum(d),
        "weight": [w for w, _ in outcome],
        "loss_tokens": sum(rollout["mask"]),
        "keep": [not fate.startswith("masked") for _, fate in outcome],
    }


def report_of(drawn, spec, per_token=False):
    batch = RolloutBatch.from_lists(
        [r["trainer"] for r in drawn],
        [r["inference"] for r in drawn],
        [r["mask"] for r in drawn],
        advantage=[[r["advantage"]] * len(r["mask"]) if per_token else r["advantage"] for r in drawn],
        columns=pl.DataFrame({"group_id": [r["step"] for r in drawn]}, schema={"group_id": pl.Int64}),
    )
    plan = Plan((parse(spec),))
    builder = LedgerBuilder(plan)
    builder.add([batch], measure(batch, plan))
    return build_report(builder.finish())


def close(figure, expected):
    if expected is None:
        assert figure.value is None
        assert figure.why
    else:
        assert figure.value == pytest.approx(expected, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize(("spec", "kind", "low", "high"), CASES, ids=[case[0] for case in CASES])
@pytest.mark.parametrize("per_token", [False, True])
@given(drawn=rollouts(min_size=1, unusable=True))
def test_gradient(spec, kind, low, high, per_token, drawn):
    rows = [described(r, kind, low, high) for r in drawn]
    assume(any(row["logp"] for row in rows))
    figures = report_of(drawn, spec, per_token).recipes[0].figures
    expected = gradient.figures(rows)
    effective = figures["effective_batch_size"]
    assert effective["basis"] == "gradient"
    assert effective["value"] == pytest.approx(expected["effective"], rel=1e-9)
    close(effective["base"], expected["base"])
    for name in ("all", "positive", "negative", "survivors", "heaviest_rollout"):
        close(figures["gradient_left"][name], expected[name])
    groups = figures["groups_with_both_signs"]
    assert (groups["kept"], groups["total"]) == expected["groups"]
    close(figures["product_left"], expected["product_left"])


def test_without_advantages():
    batch = RolloutBatch.from_lists([[-1.0, -0.5], [-2.0]], [[-1.25, -0.5], [-1.5]])
    plan = Plan((parse("trl/sequence_mask:clip_max=1"), parse("icepop"), parse("prime-rl/default@2026-08")))
    builder = LedgerBuilder(plan)
    builder.add([batch], measure(batch, plan))
    report = build_report(builder.finish())
    for recipe in report.recipes[:2]:
        assert recipe.figures["effective_batch_size"]["basis"] == "weights"
        assert recipe.figures["gradient_left"]["all"].value is None
        assert recipe.figures["product_left"].why == "the dump has no advantages"
    assert report.recipes[0].figures["effective_batch_size"]["value"] == pytest.approx(1.0)
    assert report.recipes[0].figures["effective_batch_size"]["base"].value == 2
    assert report.recipes[2].why == "it needs advantage, which the dump does not have"
    assert report.recipes[2].to_dict()["why"] == report.recipes[2].why


def test_zero_advantages_only():
    batch = RolloutBatch.from_lists([[-1.0, -0.5], [-2.0]], [[-1.25, -0.5], [-1.5]], advantage=[0.0, 0.0])
    plan = Plan((parse("icepop"), parse("trl/sequence_mask")))
    builder = LedgerBuilder(plan)
    builder.add([batch], measure(batch, plan))
    for recipe in build_report(builder.finish()).recipes:
        assert recipe.figures["effective_batch_size"]["value"] == 0
        assert recipe.figures["gradient_left"]["all"].why == "no rollout has a gradient: every advantage is 0"
        assert recipe.figures["gradient_left"]["heaviest_rollout"].why == "no gradient is left"


def test_everything_rejected():
    batch = RolloutBatch.from_lists([[-1.0, -0.5], [-2.0]], [[-9.0, -0.5], [-9.5]], advantage=[1.0, -1.0])
    plan = Plan((parse("trl/sequence_mask:clip_max=1.5"), parse("trl/token_mask:clip_min=5,clip_max=6")))
    builder = LedgerBuilder(plan)
    builder.add([batch], measure(batch, plan))
    for recipe in build_report(builder.finish()).recipes:
        assert recipe.figures["effective_batch_size"]["value"] == 0
        assert recipe.figures["gradient_left"]["all"].value == 0
        assert recipe.figures["gradient_left"]["survivors"].why == "everything was masked"
        assert recipe.figures["ess"]["token"].value == 0
