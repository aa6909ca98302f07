from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iscope.errors import UsageError
from iscope.gates.figures import is_meant, locate
from iscope.gates.path import Pick, join, read_path
from tests.render.full_reports import real

MASK = "trl/token_mask:clip_min=0.5,clip_max=2"


@pytest.fixture(scope="module")
def report():
    return real("fresh").to_dict()


def found(report, text):
    return [(one.path, one.figure.value, one.figure.why) for one in locate(report, read_path(text))]


def test_a_name_a_bucket_a_recipe_and_a_count(report):
    assert found(report, "mismatch.k3") == [("mismatch.k3", report["mismatch"]["k3"]["value"], None)]
    bucket = report["mismatch"]["by_p"][2]["k3"]["value"]
    for text in (".5-.9", "0.5-0.9", "5e-1-.90"):
        assert found(report, f"mismatch.by_p[{text}].k3") == [("mismatch.by_p[0.5-0.9].k3", bucket, None)]
    assert found(report, "mismatch.by_p[>=.9].tokens")[0][:2] == (
        "mismatch.by_p[0.9-1].tokens",
        report["mismatch"]["by_p"][3]["tokens"],
    )
    assert found(report, "mismatch.by_p[<.1].k3")[0][0] == "mismatch.by_p[0-0.1].k3"
    assert found(report, "mismatch.k3.low")[0][1] == report["mismatch"]["k3"]["low"]
    assert found(report, "coverage.tokens.scored")[0][1] == report["coverage"]["tokens"]["scored"]


def test_a_recipe_by_any_way_to_write_it(report):
    entry = next(one for one in report["recipes"] if one["spec"] == MASK)
    value = entry["gradient_left"]["all"]["value"]
    path = f"recipes[{MASK}].gradient_left.all"
    for text in (MASK, "trl/token_mask:clip_max=2,clip_min=0.5", "trl/token_mask:0.5,2"):
        assert found(report, f"recipes[{text}].gradient_left.all") == [(path, value, None)]
    size = found(report, f"recipes[{MASK}].effective_batch_size")
    assert size[0][1] == entry["effective_batch_size"]["value"]


def test_a_group_of_counts_is_their_sum(report):
    assert found(report, "coverage.tokens.unscored")[0][1] == sum(report["coverage"]["tokens"]["unscored"].values())
    empty = {"coverage": {"rollouts": {"excluded": {}}}}
    assert found(empty, "coverage.rollouts.excluded") == [("coverage.rollouts.excluded", 0, None)]


def test_every_row_and_the_last_rows():
    rows = {"breakdowns": {"step": [{"value": n, "k3": {"value": float(n)}} for n in range(4)]}}
    assert [path for path, _, _ in found(rows, "breakdowns.step[*].k3")] == [
        f"breakdowns.step[{n}].k3" for n in range(4)
    ]
    assert [value for _, value, _ in found(rows, "breakdowns.step[-2:].k3")] == [2.0, 3.0]
    assert found(rows, "breakdowns.step[3].k3") == [("breakdowns.step[3].k3", 3.0, None)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("mismatch.k33", "mismatch has no 'k33'. Did you mean 'k3'?"),
        ("mismatch.k3.lows", "mismatch.k3 has no 'lows'"),
        ("mismatch.by_p.k3", "is a list of rows: pick one in brackets"),
        ("mismatch.by_p", "it is a list of rows: pick one in brackets"),
        ("mismatch.ratio", "it is a group of figures: token, sequence, geometric"),
        ("mismatch.by_p[.2-.3].k3", "mismatch.by_p has no '.2-.3', only 0-0.1, 0.1-0.5, 0.5-0.9, 0.9-1"),
        ("mismatch[1].k3", "mismatch is no list of rows"),
        ("mismatch.lag.names", "no number"),
        ("breakdowns.env[*].k3", "the report has no breakdown by env"),
        ("recipes[trl/sequence_mask:clip_max=77].kept.tokens", "recipes has no 'trl/sequence_mask:clip_max=77', only"),
        ("coverage.files.x", "coverage.files ends there"),
    ],
)
def test_what_leads_nowhere_is_absent_and_says_why(report, text, why):
    ((_, value, said),) = found(report, text)
    assert value is None
    assert why in said


def test_an_empty_list_is_absent():
    ((_, value, why),) = found({"breakdowns": {"step": []}}, "breakdowns.step[*].k3")
    assert value is None
    assert why == "breakdowns.step is empty"


def test_a_recipe_that_was_not_replayed_says_its_why():
    report = {"recipes": [{"spec": "x", "why": "it needs reward", "framework": {}}]}
    ((_, value, why),) = found(report, "recipes[x].kept.tokens")
    assert (value, why) == (None, "it needs reward")


NO_PATHS = (
    *("", ".", "mismatch", "mismatch.", "mismatch..k3", "mismatch. k3", "mismatch.k3[", "mismatch.k3[]", "[x].k3"),
    *("mismatch.by_p[a]k3", 'mismatch.by_p["a].k3', "mismatch.by_p[a[b]].k3", "\n", "recipes"),
)


@pytest.mark.parametrize("text", NO_PATHS)
def test_what_is_no_path_is_refused(text):
    with pytest.raises(UsageError, match="is no path of a figure"):
        read_path(text)


@pytest.mark.parametrize("text", ["mismatchh.k3", "findings", "k3", "worst.rollouts[*].k3"])
def test_a_path_begins_under_a_known_name(text):
    with pytest.raises(UsageError, match="a figure is under mismatch, recipes, breakdowns or coverage"):
        read_path(text)


@pytest.mark.parametrize(
    ("text", "other", "meant"),
    [
        ("mismatch.by_p[*].k3", "mismatch.by_p[0.5-0.9].k3", True),
        ("mismatch.by_p[.5-.9].k3", "mismatch.by_p[0.5-0.9].k3", True),
        ("mismatch.by_p[.1-.5].k3", "mismatch.by_p[0.5-0.9].k3", False),
        ("mismatch.by_p[*].k3", "mismatch.by_p[0.5-0.9].k1", False),
        ("mismatch.by_p[*].k3", "mismatch.k3", False),
        ("breakdowns.step[*].recipes[trl/token_mask:0.5,2].x", f"breakdowns.step[3].recipes[{MASK}].x", True),
        ("breakdowns.step[*].recipes[trl/token_mask].x", f"breakdowns.step[3].recipes[{MASK}].x", False),
    ],
)
def test_which_figures_a_path_means(text, other, meant):
    assert is_meant(read_path(text), read_path(other)) is meant


names = st.text(min_size=1).filter(lambda text: "\x00" not in text)
picks = st.builds(Pick, names, st.booleans()).map(
    lambda pick: pick if pick.text.strip() == pick.text and not set('[]"') & set(pick.text) else Pick(pick.text, True)
)


@given(st.lists(st.one_of(names, picks), min_size=1, max_size=5))
def test_a_path_reads_back_whatever_it_holds(steps):
    steps = ["mismatch", *steps]
    back = read_path(join(steps)).steps
    assert [getattr(step, "text", step) for step in back] == [getattr(step, "text", step) for step in steps]
    for step, again in zip(steps, back, strict=True):
        if isinstance(step, Pick):
            assert (again.every, again.last) == (step.every, step.last)
