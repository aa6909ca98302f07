"""k-hat and keep(T) on the terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from iscope.model import Figure, Figures, Report
from iscope.render.terminal import render
from tests.render import reports

WIDTHS = (40, 60, 80, 100, 160)
KHAT: Figures = {
    "token": {"value": 0.128, "draws": 46335, "class": "good", "threshold": 0.7, "tail": 645},
    "sequence": {"value": 0.74, "draws": 384, "class": "bad", "threshold": 0.613, "tail": 58},
    "current": {"token": {"value": None, "why": "the largest ratios are equal", "draws": 46335}},
}


def entry(**changes) -> Figures:
    low = {"low": 3, "high": 15, "rollouts": 51, "observed": Figure(0.137), "predicted": Figure(0.1389)}
    high = {"low": 256, "high": 256, "rollouts": 96, "observed": Figure(1.0), "predicted": Figure(0.9991)}
    rule = {
        "filter": "geo_mask",
        "level": "geometric",
        "pair": "trainer/inference",
        "signs": "any",
        "bound": {"low": 0.996, "high": 1.001},
        "lengths": [low, high],
        "keep_90": {"low": Figure(1316), "high": Figure.absent("90% are still kept"), "basis": "chance"},
    }
    return rule | changes


def page(*entries: Figures, width: int = 100, named: bool = True, khat: Figures = KHAT, verbose: bool = False) -> str:
    recipe = reports.recipe("prime-rl/mis_po", named=named)
    figures = recipe.figures | {"keep_at_length": list(entries)}
    report: Report = reports.ordinary()
    mismatch = report.mismatch | {"khat": khat}
    report = replace(report, mismatch=mismatch, recipes=[*report.recipes, replace(recipe, figures=figures)])
    return render(report, width=width, verbose=verbose)


def squash(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("verbose", [False, True])
def test_no_line_is_too_wide(width, verbose):
    text = page(*[entry(filter="x" * 200)] * 3, width=width, verbose=verbose)
    assert [line for line in text.splitlines() if cell_len(line) > width] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_khat_with_class_threshold_and_draws(width):
    text = squash(page(width=width))
    assert "token exp(d) 0.128 good (46,335 tokens)" in text
    assert "sequence exp(S) 0.740 bad, ABOVE the threshold 0.613 of 384 rollouts" in text
    assert "current/inference token exp(d): the largest ratios are equal" in text


def test_shares_by_length_and_the_lengths_that_keep_90_percent():
    lines = page(entry()).splitlines()
    (row,) = (line for line in lines if "geo_mask exp(G) 0.996..1.001" in line)
    assert row.split()[-3:] == ["14%/14%", "100%/>99%", "1,316+"]
    heads = lines[lines.index(row) - 1].split()
    assert heads[-3:] == ["3-15", "256", "at"]


@pytest.mark.parametrize(
    ("low", "high", "basis", "text"),
    [
        (Figure(1), Figure(760), "chance", "1-760"),
        (Figure(3), Figure(15), "observed", "3-15*"),
        (Figure.absent("no length"), Figure.absent("no length"), "chance", "none"),
    ],
)
def test_lengths(low, high, basis, text):
    lines = page(entry(keep_90={"low": low, "high": high, "basis": basis})).splitlines()
    assert any("geo_mask" in line and line.endswith(f" {text}") for line in lines)


def test_a_bucket_without_rollouts_says_why():
    bucket = {"low": 3, "high": 15, "rollouts": 0, "observed": Figure.absent("no rollout with A<0")}
    text = squash(page(entry(signs="A<0", lengths=[bucket | {"predicted": Figure(0.5)}]), width=160))
    assert "3-15: no rollout with A<0" in text
    assert "exp(G) 0.996..1.001, A<0" in text


def test_only_named_recipes_where_any_is_named():
    assert "KEEP(T)" not in page(entry(), named=False)
    assert "KEEP(T)" in page(entry(), named=False, verbose=True)


def test_nothing_to_show():
    assert "KEEP(T)" not in page()
    assert "TAIL" not in page(khat={})
    assert "TAIL" not in render(reports.ordinary())


def test_fitted_bounds_are_marked():
    recipe = replace(reports.recipe("geometric_mask:low=0.98,high=1.02", named=True), fitted=("low", "high"))
    text = render(replace(reports.ordinary(), recipes=[recipe]))
    assert "geometric_mask .98..1.02 (fitted)" in text
