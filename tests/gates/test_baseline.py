"""Baselines: what they hold, and which are refused by name."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from iscope.errors import UsageError
from iscope.gates import Config, Gate, baseline_of, read_baseline
from iscope.gates.baseline import changes
from iscope.gates.comparable import Terms, differing
from iscope.gates.hold import hold
from iscope.model import Figure
from iscope.model.check import FAIL, PASS
from tests.gates.reports import report
from tests.render.full_reports import real

SAMPLING = {"temperature": [1.0], "top_p": [1.0], "groups": {"count": 12, "digest": "a" * 16}}
GATES = (Gate("mismatch.k3", max_ratio=1.25),)
MASK = "trl/token_mask:clip_min=0.5,clip_max=2"


def base(**changed):
    return baseline_of(report(sampling=SAMPLING, **changed), GATES)


def test_a_baseline_reads_back_and_says_what_its_figures_are(tmp_path):
    gates = (
        *GATES,
        Gate(f"recipes[{MASK}].gradient_left.all", min_ratio=0.9),
        Gate("mismatch.by_p[*].k3", max_ratio=2),
    )
    made = baseline_of(real("fresh"), gates, {"count": 3, "digest": "b"})
    file = tmp_path / "base.json"
    file.write_text(made.to_json())
    read = read_baseline(file)
    assert replace(read, name=made.name) == made
    data = json.loads(made.to_json())
    assert data["schema"] == {"name": "iscope.baseline", "version": 1}
    assert data["definition"]["report"] == {"name": "iscope.report", "version": 1}
    assert data["definition"]["arithmetic"] == {"precision": "float32", "unscored": "exclude", "batch": "all"}
    assert set(data["definition"]["recipes"]) == {MASK}
    assert data["definition"]["recipes"][MASK]["clip_max"] == 2.0
    assert data["figures"]["mismatch.k3"]["unit"] == "nats per token"
    assert {"value", "low", "high"} < set(data["figures"]["mismatch.by_p[0.5-0.9].k3"])
    assert f"recipes[{MASK}].gradient_left.all" in data["figures"]
    assert set(data["dump"]) == {"counts", "sampling", "prompts", "minus_log_q"}
    assert made.to_json() == baseline_of(real("fresh"), gates, {"count": 3, "digest": "b"}).to_json()


OTHER = {
    "another temperature (1.0 there, 0.7 here)": {"sampling": SAMPLING | {"temperature": [0.7]}},
    "another top_p (1.0 there, 0.9, 1.0 here)": {"sampling": SAMPLING | {"top_p": [0.9, 1.0]}},
    "other prompts, by their group_id (12 there, 9 here": {
        "sampling": SAMPLING | {"groups": {"count": 9, "digest": "c"}},
    },
    "the sampler's mean -log q is 15% apart, more than 10% (2 there, 2.3 nats per token here)": {"minus_log_q": 2.3},
    "the sampler's mean -log q is 15% apart": {"minus_log_q": 1.7},
}


@pytest.mark.parametrize("said", OTHER)
def test_a_baseline_of_something_else_is_refused_by_name(said):
    now = report(**({"sampling": SAMPLING} | OTHER[said]))
    with pytest.raises(UsageError) as caught:
        hold(now, Config(GATES, defaults=False), replace(base(), name="base.json"))
    assert str(caught.value).startswith("base.json: this baseline is of something else: ")
    assert said in str(caught.value)


@pytest.mark.parametrize("minus_log_q", [1.81, 2.19])
def test_a_sampler_within_a_tenth_is_the_same(minus_log_q):
    now = report(sampling=SAMPLING, minus_log_q=minus_log_q)
    assert hold(now, Config(GATES, defaults=False), base()).result.passed


def test_another_definition_is_refused():
    now = baseline_of(real("fresh"), (Gate(f"recipes[{MASK}].kept.tokens", min_ratio=0.5),))
    assert differing(now, now, Terms()) == []
    options = {MASK: now.options[MASK] | {"clip_max": 3.0, "delta": 1.0}}
    assert differing(now, replace(now, options=options), Terms()) == [
        f"another definition ({MASK}: clip_max 3.0 there, 2.0 here, delta 1.0 there, none here)"
    ]
    arithmetic = now.arithmetic | {"unscored": "neutral"}
    assert differing(now, replace(now, arithmetic=arithmetic), Terms()) == [
        "another definition (unscored neutral there, exclude here)"
    ]


def test_prompts_go_before_group_ids():
    same, other = {"count": 4, "digest": "x"}, {"count": 5, "digest": "y"}
    groups = report(sampling=SAMPLING | {"groups": {"count": 9, "digest": "c"}})
    now, then = (replace(baseline_of(one, GATES), prompts=same) for one in (groups, report(sampling=SAMPLING)))
    assert differing(now, then, Terms()) == []
    assert differing(now, replace(then, prompts=other), Terms()) == ["other prompts (5 there, 4 here)"]
    assert differing(now, replace(then, prompts=other), Terms(prompts=False)) == []


def test_what_cannot_be_told_is_said():
    held = hold(report(), Config(GATES, defaults=False), baseline_of(report(), GATES))
    assert held.result.passed
    assert len(held.result.notes) == 2
    assert "same prompts cannot be told" in held.result.notes[0]
    assert "same temperature cannot be told" in held.result.notes[1]


def test_a_sampler_further_apart_than_its_noise_allows():
    def at(value, low, high):
        found = report(sampling=SAMPLING)
        return baseline_of(replace(found, mismatch=found.mismatch | {"minus_log_q": Figure(value, low, high)}), GATES)

    then = at(2.0, 1.8, 2.2)
    assert differing(at(2.3, 2.0, 2.6), then, Terms()) == []
    assert len(differing(at(2.3, 2.25, 2.35), then, Terms())) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda data: data["schema"].update(version=2),
            "no baseline that this iscope reads (its schema is iscope.baseline",
        ),
        (lambda data: data["definition"]["report"].update(version=9), "its figures are of another definition"),
        (lambda data: data.pop("figures"), "the baseline is not whole (KeyError"),
        (lambda data: data["figures"].update({"mismatch.k3": {"value": "a"}}), "the baseline is not whole (TypeError"),
        (
            lambda data: data["figures"].update({"mismatch.k3": {"value": None}}),
            "the baseline is not whole (ValueError",
        ),
        (lambda data: data["figures"].update({"nope": {"value": 1.0}}), "a figure is under"),
        (lambda data: data.update(dump=3), "the baseline is not whole (TypeError"),
        (
            lambda data: data["figures"].update({"mismatch.k3": {"value": None, "why": 3}}),
            "the baseline is not whole (ValueError: the reason why a figure is absent is text, not 3)",
        ),
        (lambda data: data["dump"].update(prompts={"count": 3}), "the baseline is not whole (KeyError: 'digest')"),
        (
            lambda data: data["dump"]["sampling"].update(groups={"count": "3", "digest": "x"}),
            "the baseline is not whole (ValueError: groups are a count and a digest)",
        ),
        (lambda data: data["dump"].update(counts={"rollouts": [1]}), "the baseline is not whole (TypeError"),
        (lambda data: data["definition"].update(arithmetic=3), "the baseline is not whole"),
        (lambda data: data.update(schema=3), "this is no baseline that this iscope reads;"),
    ],
)
def test_a_file_that_is_no_baseline(tmp_path, change, said):
    data = base().to_dict()
    change(data)
    file = tmp_path / "base.json"
    file.write_text(json.dumps(data))
    with pytest.raises(UsageError) as caught:
        read_baseline(file)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"{file}: ")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b"\xff", b'{"a": NaN}', b'{"a": 1e999}', b"[" * 100_000, b"9" * 400]
)
def test_a_file_that_is_no_json(tmp_path, content):
    file = tmp_path / "base.json"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="this is no baseline"):
        read_baseline(file)


def test_an_update_is_held_against_itself_and_says_what_changes():
    before = replace(base(), name="base.json")
    now = report(Figure(0.003), sampling=SAMPLING | {"temperature": [0.7]})
    held = hold(now, Config((*GATES, Gate("mismatch.k3", max=0.002)), defaults=False), before, becomes=True)
    by_form = {verdict.form: verdict.word for verdict in held.result.gates}
    assert by_form == {"min": PASS, "max_ratio": PASS, "max": FAIL}
    assert "base.json was of something else: another temperature (1.0 there, 0.7 here)." in held.result.notes
    changed = {change["figure"]: (change["before"], change["after"]) for change in held.result.changes}
    assert changed["mismatch.k3"] == ({"value": 0.001, "low": 0.0009, "high": 0.0011}, {"value": 0.003})
    assert changes(before, before) == []
