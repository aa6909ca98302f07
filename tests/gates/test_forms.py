"""Every form of a gate: pass, fail, warn, missing, empty, absent with a reason, straddling, without an interval."""

from __future__ import annotations

import pytest

from iscope.gates import Gate, baseline_of, judge
from iscope.gates.read import read_gate
from iscope.model import Figure
from iscope.model.check import FAIL, PASS, WARN
from iscope.place import Place
from tests.gates.reports import report

K3 = "mismatch.k3"
STEPS = "breakdowns.step[*].k3"
BASE = report(Figure(0.001, low=0.0009, high=0.0011), steps=[0.001] * 6)


def gate(**keys):
    return read_gate(keys, Place("test"))


def one(found, keys, baseline=BASE):
    """The verdict of the single gate, beside the one that there is data."""
    written = gate(**keys)
    base = None if baseline is None else baseline_of(baseline, [written])
    data, *rest = sorted(
        judge(found, [written], base).gates, key=lambda verdict: verdict.figure != "coverage.tokens.scored"
    )
    assert data.word == PASS
    return rest


def words(found, keys, baseline=BASE):
    return {verdict.word for verdict in one(found, keys, baseline)}


def k3(value, low=None, high=None):
    return report(Figure(value, low=low, high=high))


# Of each form: the gate, a report that passes, one that fails, one whose interval straddles the limit.
SINGLE = {
    "max": ({"max": 0.002}, k3(0.001, 0.0009, 0.002), k3(0.003, 0.0021, 0.004), k3(0.0015, 0.001, 0.0021)),
    "min": ({"min": 0.002}, k3(0.003, 0.002, 0.004), k3(0.001, 0.0009, 0.0019), k3(0.0025, 0.0019, 0.003)),
    "max_ratio": (
        {"max_ratio": 1.25},
        k3(0.001, 0.00095, 0.00105),
        k3(0.002, 0.0018, 0.0022),
        k3(0.0013, 0.0012, 0.0014),
    ),
    "min_ratio": (
        {"min_ratio": 0.5},
        k3(0.001, 0.00095, 0.00105),
        k3(0.0002, 0.0001, 0.0003),
        k3(0.0005, 0.0004, 0.0006),
    ),
    "max_rise": ({"max_rise": 0.001}, k3(0.001, 0.0009, 0.0011), k3(0.004, 0.0035, 0.0045), k3(0.0021, 0.002, 0.0022)),
    "max_fall": (
        {"max_fall": 0.0005},
        k3(0.001, 0.0009, 0.0011),
        k3(0.0002, 0.0001, 0.0003),
        k3(0.0005, 0.0004, 0.0006),
    ),
    "beyond_interval": (
        {"beyond_interval": "above"},
        k3(0.001, 0.0009, 0.0012),
        k3(0.002, 0.0015, 0.0025),
        k3(0.0013, 0.00105, 0.0016),
    ),
}
# The same over rows: the values of the steps. A slope straddles by the scatter, a growth by the rows' intervals.
WIDE = [Figure(0.001, low=0.0001, high=0.004)] * 6
TRENDS = {
    "max_slope": (
        {"max_slope": 1e-4},
        [0.001] * 6,
        [0.001 * n for n in range(6)],
        [0.0, 0.004, 0.0, 0.004, 0.0, 0.004],
    ),
    "min_slope": ({"min_slope": -1e-4}, [0.001] * 6, [0.01 - 0.001 * n for n in range(6)], [0.004, 0.0] * 3),
    "max_growth": ({"max_growth": 2.0}, [0.001] * 6, [0.001] * 3 + [0.005] * 3, WIDE),
    "min_growth": ({"min_growth": 0.5, "window": 2}, [0.001] * 6, [0.005] * 4 + [0.001] * 2, WIDE),
}
FORMS = {name: (K3, *case) for name, case in SINGLE.items()} | {
    name: (STEPS, keys, *(report(steps=rows) for rows in cases)) for name, (keys, *cases) in TRENDS.items()
}


@pytest.mark.parametrize("form", FORMS)
def test_passes_fails_and_warns(form):
    figure, keys, good, bad, _ = FORMS[form]
    keys = {"figure": figure, **keys}
    assert words(good, keys) == {PASS}
    assert words(bad, keys) == {FAIL}
    assert words(bad, keys | {"level": "warn"}) == {WARN}
    assert words(good, keys | {"level": "warn"}) == {PASS}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("on_noise", "level", "word"),
    [
        (None, "fail", WARN),
        ("warn", "fail", WARN),
        ("pass", "fail", PASS),
        ("fail", "fail", FAIL),
        ("fail", "warn", WARN),
    ],
)
def test_a_limit_inside_the_interval(form, on_noise, level, word):
    figure, keys, _, _, noisy = FORMS[form]
    keys = {"figure": figure, "level": level, **keys} | ({"on_noise": on_noise} if on_noise else {})
    assert words(noisy, keys) == {word}
    assert "lies within its noise" in one(noisy, keys)[0].message


@pytest.mark.parametrize("form", SINGLE)
def test_missing_empty_and_absent_break_a_gate(form):
    _, keys, *_ = FORMS[form]
    for figure, found, why in (
        ("mismatch.nothing", BASE, "mismatch has no 'nothing'"),
        ("mismatch.by_p[*].k3", report(by_p=[]), "mismatch.by_p is empty"),
        (K3, report(Figure.absent("no scored tokens")), "no scored tokens"),
    ):
        (verdict,) = one(found, {"figure": figure, **keys})
        assert verdict.word == FAIL
        assert why in verdict.message
        assert "cannot be judged" in verdict.message
        assert words(found, {"figure": figure, "level": "warn", **keys}) == {WARN}
        assert words(found, {"figure": figure, "on_noise": "pass", **keys}) == {FAIL}


@pytest.mark.parametrize("form", TRENDS)
def test_a_trend_without_its_rows_breaks_a_gate(form):
    figure, keys, *_ = FORMS[form]
    gap = report(steps=[0.001, Figure.absent("no scored tokens"), 0.001, 0.001, 0.001, 0.001])
    for found, why in (
        (report(), "the report has no breakdown by step"),
        (report(steps=[0.001, 0.002]), "rows"),
        (report(steps={name: 0.001 for name in "abcdef"}), "the values of its rows are no numbers"),
        (gap, "no scored tokens"),
    ):
        (verdict,) = one(found, {"figure": figure, **keys})
        assert verdict.word == FAIL
        assert why in verdict.message


@pytest.mark.parametrize("form", [form for form in SINGLE if form not in ("max", "min")])
def test_without_a_baseline_or_its_figure(form):
    _, keys, good, *_ = FORMS[form]
    (verdict,) = one(good, {"figure": K3, **keys}, baseline=None)
    assert verdict.word == FAIL
    assert "there is no baseline: write one with --write-baseline FILE" in verdict.message
    (verdict,) = one(report(Figure.absent("gone")), {"figure": K3, **keys})
    assert (verdict.word, verdict.baseline.value) == (FAIL, 0.001)
    (verdict,) = one(good, {"figure": K3, **keys}, baseline=report(Figure.absent("it was not there")))
    assert verdict.word == FAIL
    assert "the baseline does not hold it" in verdict.message


@pytest.mark.parametrize("form", ["max", "min", "max_ratio", "min_ratio", "max_rise", "max_fall"])
def test_without_an_interval_the_value_decides(form):
    keys = {"figure": K3, **SINGLE[form][0]}
    *_, good, bad, _ = FORMS[form]
    for found, word in ((good, PASS), (bad, FAIL)):
        assert words(k3(found.mismatch["k3"].value), keys) == {word}


def test_intervals_are_needed_to_compare_intervals():
    (verdict,) = one(k3(0.001), {"figure": K3, "beyond_interval": "above"})
    assert verdict.word == FAIL
    assert "it has no interval" in verdict.message
    (verdict,) = one(BASE, {"figure": K3, "beyond_interval": "above"}, baseline=k3(0.001))
    assert "the baseline's has no interval" in verdict.message


@pytest.mark.parametrize(
    ("side", "higher", "lower"),
    [("above", FAIL, PASS), ("below", PASS, FAIL), ("either", FAIL, FAIL), (True, FAIL, FAIL)],
)
def test_to_which_side_an_interval_may_not_lie(side, higher, lower):
    keys = {"figure": K3, "beyond_interval": side}
    assert words(k3(0.002, 0.0015, 0.0025), keys) == {higher}
    assert words(k3(0.0005, 0.0004, 0.0006), keys) == {lower}


@pytest.mark.parametrize(("limit", "word"), [(0.001, PASS), (0.00099, FAIL)])
def test_a_limit_belongs_to_what_is_allowed(limit, word):
    assert words(k3(0.001), {"figure": K3, "max": limit}) == {word}
    assert words(k3(-0.001), {"figure": K3, "min": -limit}) == {word}


def test_a_figure_that_overflows_is_above_every_limit():
    big, tiny = Figure(None, why="it overflows", log10=400.0), Figure(None, why="it underflows", log10=-400.0)
    assert words(report(big), {"figure": K3, "max": 1e300}) == {FAIL}
    assert words(report(big), {"figure": K3, "min": 1.0}) == {PASS}
    assert words(report(tiny), {"figure": K3, "max": 1e-300}) == {PASS}
    assert words(report(tiny), {"figure": K3, "min": 1e-300}) == {FAIL}
    assert words(report(tiny), {"figure": K3, "max": -1.0}) == {FAIL}


def test_several_limits_of_one_gate_are_judged_apart():
    keys = {"figure": K3, "max": 0.002, "max_ratio": 1.1}
    assert [(verdict.form, verdict.word) for verdict in one(k3(0.0015), keys)] == [("max_ratio", FAIL), ("max", PASS)]


def test_every_row_is_judged_and_so_are_those_that_are_gone():
    before = report(steps={1: 0.001, 2: 0.001, 3: 0.001})
    after = report(steps={1: 0.001, 2: 0.004, 4: 0.001})
    found = one(after, {"figure": STEPS, "max_ratio": 2.0}, baseline=before)
    assert {verdict.figure: verdict.word for verdict in found} == {
        "breakdowns.step[1].k3": PASS,
        "breakdowns.step[2].k3": FAIL,
        "breakdowns.step[3].k3": FAIL,
        "breakdowns.step[4].k3": FAIL,
    }
    said = {verdict.figure: verdict.message for verdict in found}
    assert "the baseline has it and this report has not" in said["breakdowns.step[3].k3"]
    assert "the baseline does not hold it" in said["breakdowns.step[4].k3"]
    assert [verdict.word for verdict in one(after, {"figure": STEPS, "max": 0.002})] == [FAIL, PASS, PASS]


def test_steps_are_taken_in_their_numerical_order():
    rows = {str(n): 0.001 * n for n in (10, 9, 2, 1)}
    keys = {"figure": STEPS, "max_slope": 0.00101, "max_growth": 9.0, "window": 2}
    slope, growth = sorted(one(report(steps=rows), keys), key=lambda verdict: verdict.form, reverse=True)
    assert (slope.word, growth.word) == (PASS, PASS)
    assert slope.compared.value == pytest.approx(0.001)
    assert growth.compared.value == pytest.approx(9.5 / 1.5)
    assert growth.value.value == pytest.approx(0.01)
    assert "the mean of the last 2 rows is 6.33 times that of the first" in growth.message
    assert "has the slope +0.001 [+0.001, +0.001] nats per token per step" in slope.message


SEVERITIES = (("IS003", "error"), ("IS012", "warning"), ("IS019", "information"))


@pytest.mark.parametrize(
    ("keys", "found", "count"),
    [
        ({"findings": "error"}, SEVERITIES, 1),
        ({"findings": "warning"}, SEVERITIES, 2),
        ({"findings": "information"}, SEVERITIES, 3),
        ({"findings": "error"}, SEVERITIES[1:], 0),
        ({"findings": ["IS012", "IS014"]}, SEVERITIES, 1),
        ({"findings": "IS019"}, SEVERITIES, 1),
        ({"findings": ["IS014"]}, SEVERITIES, 0),
        ({"findings": "warning", "ignore": ["IS003", "IS012"]}, SEVERITIES, 0),
        ({"findings": "error"}, (), 0),
    ],
)
def test_findings(keys, found, count):
    (verdict,) = one(report(findings=found), keys)
    assert verdict.value.value == count
    assert verdict.word == (FAIL if count else PASS)
    assert words(report(findings=found), keys | {"level": "warn"}) == ({WARN} if count else {PASS})


def test_findings_are_named():
    (verdict,) = one(report(findings=SEVERITIES), {"findings": "warning"})
    assert verdict.message == "2 findings of severity warning or worse: IS003 title of IS003; IS012 title of IS012."
    many = [(f"IS{n:03}", "error") for n in range(1, 8)]
    (verdict,) = one(report(findings=many), {"findings": "error"})
    assert verdict.message.endswith("IS004 title of IS004; and 3 more.")


def test_a_dump_of_nothing_never_passes():
    empty = report(Figure.absent("no scored tokens"), scored=0)
    result = judge(empty, [gate(findings="error"), gate(figure=K3, max=1.0, level="warn")])
    assert not result
    assert [verdict.figure for verdict in result.failures] == ["coverage.tokens.scored"]
    assert not judge(empty, [])


def test_the_result_and_its_failures():
    result = judge(k3(0.004), [gate(figure=K3, max=0.003, reason="ours"), gate(figure=K3, max=0.001, level="warn")])
    assert [verdict.word for verdict in result.gates] == [FAIL, WARN, PASS]
    assert (len(result.failures), len(result.warnings)) == (1, 1)
    assert result.failures[0].reason == "ours"
    assert (result.failures[0].value.value, result.failures[0].limit) == (0.004, 0.003)
    with pytest.raises(AssertionError, match="nats per token; beyond the limit") as caught:
        result.raise_for_failures()
    assert caught.value.exit_code == 1
    passed = judge(k3(0.001), [Gate(K3, max=0.003)])
    assert passed
    passed.raise_for_failures()
    assert repr(passed) == "<CheckResult PASS: 0 failed, 0 warned, 2 passed of 2 gates>"
    assert type(result).from_dict(result.to_dict()) == result
