"""Requirements, ranking, the front and the rules of the advice, on made-up settings."""

from __future__ import annotations

import pytest

from iscope.analysis.compare.advice import Case, advise
from iscope.analysis.compare.front import carried, front
from iscope.analysis.compare.require import check_paths, ranked, read_conditions
from iscope.errors import UsageError
from iscope.model import Figure, Finding, RecipeReport


def entry(spec, left=(1.0, 1.0), share=1.0, product=0.3, k3=0.01, groups=(10, 10), unit="tokens"):
    """A setting with gradient left at either sign, effective batch size over the base's and product left."""
    figures = {
        "gradient_left": {
            "all": Figure((left[0] + left[1]) / 2),
            "positive": Figure(left[0]),
            "negative": Figure(left[1]),
        },
        "effective_batch_size": {"value": 100 * share, "base": Figure(100.0), "basis": "gradient"},
        "product_left": Figure(product),
        "unmasked_mismatch_kl": {"token": Figure(k3)},
        "groups_with_both_signs": {"kept": groups[0], "total": groups[1]},
    }
    return RecipeReport(spec, spec, {}, "token", unit, named=True, figures=figures, framework={})


def advice(entries, product=0.5, findings=(), narrow=lambda _: []):
    uncorrected = entry("none", product=product, k3=0.02).figures
    return advise(Case(entries, uncorrected, findings, narrow, lambda one: one.unit == "tokens"))


def finding(severity):
    return Finding("IS001", severity, "Placeholders", "Some.", action="log the sampled token's logprob")


def test_an_error_comes_first():
    found = advice([entry("a")], findings=[finding("error"), finding("warning")])
    assert (found.rule, found.spec) == ("fix_first", None)
    assert "log the sampled token's logprob" in " ".join(found.sentences)


def test_a_warning_does_not():
    assert advice([entry("a")], findings=[finding("warning")]).rule == "lowest_k3"


def test_little_to_correct_takes_a_token_bound_as_a_fuse():
    found = advice([entry("seq", unit="rollouts"), entry("narrow", left=(0.5, 0.5)), entry("wide")], product=0.0999)
    assert (found.rule, found.spec) == ("fuse", "wide")
    assert advice([entry("seq", unit="rollouts")], product=0.05).spec is None
    assert advice([entry("wide")], product=0.10).rule == "lowest_k3"


def test_the_lowest_kept_k3_of_those_that_qualify():
    kept = [entry("a", k3=0.012), entry("b", k3=0.008), entry("c", k3=0.001, left=(0.89, 1.0))]
    found = advice(kept)
    assert (found.rule, found.spec) == ("lowest_k3", "b")
    assert "2 of 3 settings" in found.sentences[1]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"left": (0.89, 1.0)}, "A>0 is 0.89"),
        ({"left": (1.0, 0.89)}, "A<0 is 0.89"),
        ({"left": (1.16, 1.0)}, "0.16 apart"),
        ({"share": 0.89}, "89% of the base's"),
        ({"groups": (94, 100)}, "94% of the groups"),
    ],
)
def test_each_thing_that_disqualifies(bad, said):
    found = advice([entry("a", **bad)], narrow=lambda one: [f"the bounds of {one.spec} are too narrow"])
    assert (found.rule, found.spec) == ("none_qualifies", None)
    assert said in found.sentences[1]
    assert found.sentences[2] == "the bounds of a are too narrow"


def test_exactly_at_the_thresholds_qualifies():
    assert advice([entry("a", left=(0.9, 1.04), share=0.9, groups=(95, 100))]).spec == "a"


def test_no_mask_repairs():
    assert advice([entry("a", product=0.51)]).rule == "no_mask_repairs"
    assert advice([entry("a", product=0.50)]).rule == "lowest_k3"


def test_the_front():
    entries = [
        entry("none", product=0.6),
        entry("beaten", left=(0.9, 0.9), product=0.6),
        entry("good", left=(0.95, 0.95), product=0.4),
        entry("equal", left=(0.95, 0.95), product=0.4),
        entry("exploded", left=(1e6, 1e6), share=0.01, product=0.0),
        entry("faint", left=(0.005, 0.005), product=0.0),
    ]
    assert [point["spec"] for point in front(entries)] == ["none", "good", "exploded"]
    assert carried(entries[4]) == 0.01


def test_requirements():
    conditions = read_conditions(["gradient_left.all >= 0.9 and product_left < 50%", "groups_with_both_signs.kept==10"])
    assert [(one.path, one.operator, one.value) for one in conditions] == [
        ("gradient_left.all", ">=", 0.9),
        ("product_left", "<", 0.5),
        ("groups_with_both_signs.kept", "==", 10.0),
    ]
    met = [one.spec for one in (entry("a"), entry("b", left=(0.8, 0.9))) if all(c.met(one) for c in conditions)]
    assert met == ["a"]


@pytest.mark.parametrize("text", ["", "gradient_left.all", "gradient_left.all > much", "1 > 2", "a > 1 or b > 2"])
def test_malformed_requirements(text):
    with pytest.raises(UsageError, match="a requirement is FIGURE and a bound"):
        read_conditions([text])


def test_an_unknown_figure():
    with pytest.raises(
        UsageError, match=r"no setting has a figure 'gradient_left.al'.*Did you mean 'gradient_left.all'"
    ):
        check_paths(["gradient_left.al"], [entry("a")])


def test_ranking():
    entries = [entry("a", product=0.5, left=(0.9, 0.9)), entry("b", product=0.2), entry("c", product=0.7, left=(2, 2))]
    assert [one.spec for one in ranked(entries, "product_left")] == ["b", "a", "c"]
    assert [one.spec for one in ranked(entries, "gradient_left.all")] == ["c", "b", "a"]
    assert ranked(entries, None) == entries
