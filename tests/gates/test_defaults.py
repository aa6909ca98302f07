"""The default gates: which apply, and that two halves of a healthy run pass while a wider one does not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.gates import ANY, LARGE, REFUSED, read, verdicts
from iscope.analysis.levels import Levels
from iscope.gates import baseline_of, default_gates, judge
from iscope.gates.defaults import OF_FRAMEWORKS, tracked
from iscope.model import Figure
from iscope.model.check import FAIL
from iscope.recipes.registry import FRAMEWORKS
from tests.gates.reports import report
from tests.render.full_reports import real


def bucket(low, high, k3, share=0.5):
    return {"low": low, "high": high, "tokens": 10, "k3": k3, "k3_share": Figure(share)}


def chosen(now, before=None, **options):
    found = default_gates(now, None if before is None else baseline_of(before, tracked()), **options)
    return {(gate.figure or gate.findings): gate for gate in found.gates}, found.notes


def test_without_a_baseline_ceilings_shape_and_findings():
    found, notes = chosen(real("fresh"))
    assert set(found) == {"mismatch.k3", "mismatch.khat.token", "mismatch.variance_ratio", "error", "warning"}
    assert notes == ()
    ceilings = [(gate.max, gate.level) for gate in default_gates(real("fresh")).gates if gate.figure == "mismatch.k3"]
    assert ceilings == [(0.015, "fail"), (0.002, "warn")]
    own = default_gates(real("fresh"), levels=Levels.of(0.01)).gates
    assert [gate.max for gate in own if gate.figure == "mismatch.k3"] == [0.05, 0.01]


def test_the_variance_ratio_is_judged_on_fresh_rollouts_only():
    assert "mismatch.variance_ratio" not in chosen(real("async"))[0]
    assert "mismatch.variance_ratio" not in chosen(report(variance_ratio=Figure(1.0)))[0]
    fresh = {"min": Figure(0.0), "max": Figure(0.0)}
    assert chosen(report(variance_ratio=Figure(1.0), lag=fresh))[0]["mismatch.variance_ratio"].level == "fail"
    assert "mismatch.variance_ratio" not in chosen(report(lag=fresh))[0]


def test_buckets_are_held_against_the_baseline_by_what_can_be_told():
    sure, unsure = Figure(0.001, low=0.0009, high=0.0011), Figure(0.001)
    now = report(by_p=[bucket(0.0, 0.1, sure), bucket(0.1, 0.5, unsure), bucket(0.5, 0.9, unsure, 0.001)])
    found, notes = chosen(now, now)
    gates = {name: gate for name, gate in found.items() if "by_p" in str(name)}
    assert {name: gate.max_ratio for name, gate in gates.items()} == {
        "mismatch.by_p[0-0.1].k3": 1.25,
        "mismatch.by_p[0.1-0.5].k3": 2.0,
    }
    assert {gate.level for gate in gates.values()} == {"fail"}
    assert len(notes) == 1
    assert "mismatch.by_p[0.5-0.9].k3 is not held against the baseline" in notes[0]
    empty = report(by_p=[bucket(0.0, 0.1, Figure.absent("no scored tokens"))])
    assert "the dump has no tokens there" in chosen(empty, now)[1][0]
    assert "the baseline has no tokens there" in chosen(now, empty)[1][0]
    tiny = report(by_p=[bucket(0.0, 0.1, Figure(1e-8))])
    assert "it is rounding there (1e-08)" in chosen(now, tiny)[1][0]


def test_what_agreed_to_rounding_has_to_go_on_doing_so():
    before = report(Figure(1e-8), by_p=[bucket(0.0, 0.1, Figure(1e-8))])
    gates = default_gates(report(Figure(1e-5)), baseline_of(before, tracked())).gates
    assert [gate.max for gate in gates if gate.figure == "mismatch.k3"] == [0.015, 0.002, 1e-6]


def test_maxima_signed_means_and_tails_only_warn():
    found, _ = chosen(real("fresh"), real("fresh"))
    for name in ("abs_max", "k1", "ratio.sequence.ess_fraction", "khat.token", "khat.sequence"):
        assert found[f"mismatch.{name}"].level == "warn"
    without = replace(real("fresh"), mismatch=real("fresh").mismatch | {"k1": Figure(0.001)})
    assert "mismatch.k1" not in chosen(without, real("fresh"))[0]
    assert "mismatch.k1" not in chosen(real("fresh"), without)[0]


@pytest.mark.parametrize("name", OF_FRAMEWORKS)
def test_limits_of_frameworks_hold_on_a_healthy_dump_and_say_whose_they_are(name):
    assert name in FRAMEWORKS
    gates = default_gates(real("fresh"), framework=name).gates
    own = [gate for gate in gates if replace(gate, origin="python") in OF_FRAMEWORKS[name]]
    assert own
    for gate in own:
        assert gate.reason
    assert judge(real("fresh"), own)


def test_halves_of_healthy_runs_pass_and_a_wider_gap_is_caught(sample):
    found = Counter()
    for index, (dump, trainer) in enumerate(LARGE):
        table, rng = read(sample, dump, trainer), np.random.default_rng([7, index])
        found.update(one for _ in range(3) for one in verdicts(table, rng))
    assert {name for factor, name, word in found if factor == 1.0 and word == FAIL} <= {REFUSED}
    for factor in (1.5, 2.0, 5.0):
        assert found[factor, ANY, FAIL] == 3 * len(LARGE)
