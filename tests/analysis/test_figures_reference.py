"""Every figure against the slow reference, on random ragged data."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from iscope.analysis.report import build_report
from iscope.ledger.ledger import Ledger, LedgerBuilder
from iscope.ledger.measure import measure
from iscope.ledger.plan import Plan
from iscope.recipes.grammar import parse
from tests.reference import slow
from tests.rollout_factory import batch_of, rollouts

CASES = [
    ("none", "none", None, None),
    ("trl/token_truncate:clip_max=2", "token_truncate", None, 2.0),
    ("trl/token_truncate:clip_min=0.5,clip_max=2", "token_truncate", 0.5, 2.0),
    ("trl/token_truncate:clip_min=0.8,clip_max=none", "token_truncate", 0.8, None),
    ("trl/token_mask:clip_max=3", "token_mask", None, 3.0),
    ("trl/token_mask:clip_min=1,clip_max=2", "token_mask", 1.0, 2.0),
    ("trl/token_mask:clip_max=none", "token_mask", None, None),
    ("icepop:0.5,5", "token_mask", 0.5, 5.0),
    ("trl/sequence_truncate:clip_min=0.5,clip_max=2", "sequence_truncate", 0.5, 2.0),
    ("trl/sequence_mask", "sequence_mask", None, 3.0),
    ("trl/sequence_mask:clip_min=1,clip_max=1.001", "sequence_mask", 1.0, 1.001),
    ("geometric_mask:0.996,1.001", "geometric_mask", 0.996, 1.001),
]


def ledger_of(drawn, recipes=()) -> Ledger:
    plan = Plan(tuple(parse(recipe) for recipe in recipes))
    builder = LedgerBuilder(plan)
    batch = batch_of(drawn)
    builder.add([batch], measure(batch, plan))
    return builder.finish()


def close(figure, expected):
    if expected is None:
        assert figure.value is None
        assert figure.why
    else:
        assert figure.value == pytest.approx(expected, rel=1e-9, abs=1e-15)


def summary_close(figures, expected):
    """Compare a summary; a variance from moments about 1 is exact to rounding of the mean square about 1."""
    for name in set(expected) - {"variance", "square_about_one"}:
        close(figures[name], expected[name])
    rounding = 1e-14 * expected["square_about_one"]
    assert figures["std"].value ** 2 == pytest.approx(expected["variance"], rel=1e-9, abs=rounding)


@given(rollouts(min_size=1, unusable=True))
def test_mismatch(drawn):
    assume(any(slow.differences(r) for r in drawn))
    figures = build_report(ledger_of(drawn)).mismatch
    expected = slow.mismatch(drawn)
    for name in ("k1", "k2", "k3", "k3_rollout_mean", "abs_mean", "abs_max", "token_mult_prob_error"):
        close(figures[name], expected[name])
    for level in ("token", "sequence", "geometric"):
        summary_close(figures["ratio"][level], expected[level])


@given(rollouts(min_size=1, unusable=True))
def test_quantiles(drawn):
    tokens = sorted(d for r in drawn for d in slow.differences(r))
    assume(tokens)
    token = build_report(ledger_of(drawn)).mismatch["ratio"]["token"]
    for name, at in {"p0_1": 0.001, "p1": 0.01, "p50": 0.5, "p99": 0.99, "p99_9": 0.999}.items():
        exact = math.exp(tokens[max(1, math.ceil(at * len(tokens))) - 1])
        low, high = token[name].bin
        assert low <= exact * (1 + 1e-12)
        assert exact <= high * (1 + 1e-12)
        assert token[name].value == pytest.approx(exact, rel=math.log(high / low) + 1e-12)


@pytest.mark.parametrize(("spec", "kind", "low", "high"), CASES, ids=[case[0] for case in CASES])
@given(drawn=rollouts(min_size=1, unusable=True))
def test_recipe(spec, kind, low, high, drawn):
    assume(any(slow.differences(r) for r in drawn))
    figures = build_report(ledger_of(drawn, [spec])).recipes[0].figures
    expected = slow.recipe(drawn, kind, low, high)
    summary_close(figures["applied"], expected["applied"])
    for name in ("masked", "truncated", "modified", "kept"):
        for unit in ("tokens", "rollouts"):
            assert figures[name][unit] == expected[name][unit], (name, unit)
    for bound in ("low", "high"):
        assert figures["truncated"][bound] == expected[f"truncated_{bound}"]
        assert sum(f[bound] for f in figures["masked"]["by_filter"]) == expected[f"masked_{bound}"]
    close(figures["ess"]["token"], expected["ess"]["token"])
    close(figures["ess"]["rollout"], expected["ess"]["rollout"])
    for name in ("masked_mismatch_kl", "unmasked_mismatch_kl"):
        close(figures[name]["token"], expected[name]["token"])
        close(figures[name]["rollout_mean"], expected[name]["rollout_mean"])


@given(drawn=rollouts(min_size=1), spec=st.sampled_from([case[0] for case in CASES]))
def test_applied_quantiles_lie_within_the_applied_weights(drawn, spec):
    assume(any(slow.differences(r) for r in drawn))
    case = next(case for case in CASES if case[0] == spec)
    applied = build_report(ledger_of(drawn, [spec])).recipes[0].figures["applied"]
    if case[1].startswith("token"):
        weights = sorted(slow.recipe(drawn, *case[1:])["weights"])
        for name, at in {"p1": 0.01, "p50": 0.5, "p99": 0.99}.items():
            exact = weights[max(1, math.ceil(at * len(weights))) - 1]
            assert applied[name].value == pytest.approx(exact, rel=0.12, abs=1e-9)
    assert applied["min"].value <= applied["p50"].value <= applied["max"].value


@given(rollouts(min_size=1))
def test_changes_by_sign_add_up(drawn):
    assume(any(slow.differences(r) for r in drawn))
    figures = build_report(ledger_of(drawn, ["icepop"])).recipes[0].figures
    for name in ("masked", "truncated", "modified"):
        signs = figures[name]["by_sign"].values()
        assert sum(sign["tokens"] for sign in signs) == figures[name]["tokens"]
        assert sum(sign["rollouts"] for sign in signs) == figures[name]["rollouts"]


def test_nothing_to_score():
    report = build_report(ledger_of([], ["trl/token_mask", "trl/sequence_mask"]))
    assert report.mismatch["k3"].value is None
    assert report.recipes[0].figures["ess"]["token"].value == 0
    assert report.verdict.word == "NO DATA"
