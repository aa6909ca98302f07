from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from iscope.model import Figure, Finding, Report
from iscope.render.terminal import render, verdict_line
from tests.render import reports

WIDTHS = (40, 60, 71, 72, 80, 100, 160)
HOSTILE = [
    "[/bold]",
    "[red]x[/red]",
    "<script>alert(1)</script>",
    "x" * 10_000,
    "word " * 2_000,
    "\u202e\u05e9\u05dc\u05d5\u05dd",
    "日本語" * 40,
    "\x1b[31mred\x1b[0m\r\n\ttab\x00",
    "\udcff bytes",
    "e\u0301\u200d👩\u200d💻",
    ":boom: {0} %s \\",
    "",
]
MAKERS: list[Callable[[], Report]] = [
    reports.ordinary,
    reports.extreme,
    reports.hollow,
    reports.bare,
    reports.future,
    lambda: reports.hostile("x" * 10_000),
]


def squash(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("make", MAKERS)
def test_no_line_is_wider_than_the_page(make: Callable[[], Report], width: int, verbose: bool) -> None:
    text = render(make(), width=width, verbose=verbose)
    assert text.endswith("\n")
    too_long = [line for line in text.splitlines() if cell_len(line) > width]
    assert too_long == []
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize("width", [30, *WIDTHS])
@pytest.mark.parametrize("string", HOSTILE)
def test_strings_of_users_are_printed_as_they_are(string: str, width: int) -> None:
    text = render(reports.hostile(string), width=width, verbose=True)
    assert [line for line in text.splitlines() if cell_len(line) > width] == []
    assert [c for c in text if not c.isprintable() and c != "\n"] == []
    if string in ("[/bold]", "<script>alert(1)</script>"):
        assert string in text


@given(st.text(max_size=200), st.integers(30, 160))
def test_any_string_at_any_width(string: str, width: int) -> None:
    text = render(reports.hostile(string), width=width, verbose=True)
    assert max(cell_len(line) for line in text.split("\n")) <= width
    assert all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_verdict_comes_right_after_the_header(width: int) -> None:
    lines = render(reports.ordinary(), width=width).splitlines()
    assert lines[0].startswith("iscope · trainer.parquet")
    at = next(number for number, line in enumerate(lines) if line.startswith("VERDICT NOT HEALTHY: "))
    assert at == (2 if width >= 60 else 3)


def test_the_header_names_rollouts_tokens_and_steps() -> None:
    assert "416 rollouts · 36,511 scored tokens, 0 unscored · steps 0-5" in render(reports.ordinary(), width=80)
    assert "1 rollout · 1 scored token, 0 unscored\n" in render(
        reports.ordinary(coverage=reports.coverage(rollouts_analyzed=1, tokens_scored=1), breakdowns={}), width=80
    )


def test_the_header_counts_files_it_does_not_name() -> None:
    report = reports.ordinary(provenance={"files": [f"/d/{n}.parquet" for n in range(9)]})
    assert render(report).startswith("iscope · 0.parquet + 1.parquet + 2.parquet and 6 more files\n")
    assert render(replace(report, provenance={})).startswith("iscope · 2 files\n")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("make", [reports.ordinary, reports.extreme, reports.future])
def test_every_number_is_printed_whole_at_every_width(make: Callable[[], Report], width: int) -> None:
    def numbers(text: str) -> set[str]:
        return set(re.findall(r"(?<![\w.])-?[\d,]+(?:\.\d+)?(?:e-?\d+)?%?", squash(text)))

    wide = render(make(), width=400, verbose=True)
    narrow = render(make(), width=width, verbose=True)
    assert "…" not in narrow
    assert numbers(wide) - numbers(narrow) == set()


@pytest.mark.parametrize("width", WIDTHS)
def test_figures_stand_with_estimator_and_unit(width: int) -> None:
    text = squash(render(reports.ordinary(), width=width))
    assert "k1 mean(-d) 0.0123 nats/token" in text
    assert "k3 mean(exp(d)-1-d) 0.0173 [0.0151,0.0198] nats/token" in text
    assert "mean |d| 0.0456 nats" in text
    assert "ESS: (sum rho)^2 / sum rho^2 of the raw ratios" in text
    whole = squash(render(reports.ordinary(), width=width, verbose=True))
    assert "ESS rollouts: (sum W)^2 / sum W^2, W = mean applied weight of a rollout" in whole
    assert "RECIPES over 36,511 scored tokens of 416 rollouts" in text


def test_rows_of_the_ratio_table() -> None:
    def row(verbose: bool) -> list[str]:
        lines = render(reports.ordinary(), width=200, verbose=verbose).splitlines()
        return next(line for line in lines if line.startswith("  sequence exp(S), rollouts")).split()[3:]

    assert row(False) == ["0.0123", "0.457", "1.000", "0.9987", "1.80", "12.5", "1.0%", "91.8%"]
    tail = ["1.80", "3.20", "12.5", "0.310", "1.0%", "91.8%", "(33,512)"]
    assert row(True) == ["0.0123", "0.110", "0.457", "1.000", "0.9987", *tail]


def test_counts_of_nothing_are_left_out() -> None:
    figures = {"k3": Figure(0.0), "tokens_at_exponent_limit": 0}
    assert "exponent limit" not in render(reports.ordinary(mismatch=figures))
    assert "tokens at the exponent limit 3" in render(
        reports.ordinary(mismatch=figures | {"tokens_at_exponent_limit": 3})
    )
    assert "k3 mean(exp(d)-1-d) 0 nats/token" in render(reports.ordinary(mismatch=figures))


def test_rows_of_the_recipe_table() -> None:
    lines = render(reports.ordinary(), width=160).splitlines()
    row = next(line for line in lines if line.startswith("> "))
    assert row.split()[:3] == [">", "trl/sequence_mask", "..3"]
    assert row.split()[3:] == ["1.0%", "15.4%"]
    whole = render(reports.ordinary(), width=400, verbose=True).splitlines()
    row = next(line for line in whole if line.startswith("> "))
    found = iter(row.split())
    wanted = ("token", "1.0%", "15.4%", "0.0%", "0.0%", "0.9741", "152", "(36.6%)", "0.00412", "0.917")
    assert all(word in found for word in wanted)
    labels = [line.split("  ")[1] for line in lines if line.startswith(("  none", "  trl/", "  icepop"))]
    assert labels == ["none", "trl/token_mask .5..2", "icepop .5..5"]


def test_a_narrow_page_has_one_record_per_recipe() -> None:
    text = render(reports.ordinary(), width=60)
    assert "> trl/sequence_mask ..3\n" in text
    assert "modif tok 1.0%" in text
    assert "BY step" in text
    whole = render(reports.ordinary(), width=60, verbose=True)
    assert "masked tok 1.0%" in whole
    assert "k3 kept 0.00412" in whole
    assert "ESS rollouts 152 (36.6%)" in whole


def test_a_column_appears_only_if_a_recipe_has_the_figure() -> None:
    without, with_them = (squash(render(make(), verbose=True)) for make in (reports.ordinary, reports.future))
    for head in ("effect(ive)", "grad(ient left)", "groups", "product left", "kept: weight other than 0"):
        assert head not in without
        assert head in with_them
    assert "52.1 [34,81]/152" in with_them
    assert "30/42" in with_them
    assert "36,146" in with_them


def test_kept_is_not_shown_without_the_gradient_left() -> None:
    assert "36,146" not in render(reports.ordinary(), width=160, verbose=True)


@pytest.mark.parametrize("width", WIDTHS)
def test_absent_figures_are_a_dash_with_the_reason_once(width: int) -> None:
    text = squash(render(replace(reports.hollow(), coverage=reports.coverage()), width=width))
    assert text.count(reports.NO_ADVANTAGE) == 1
    assert f"- effect rollouts: {reports.NO_ADVANTAGE}" in text
    assert "- k1 mean(-d), k3 mean(exp(d)-1-d): no scored token" in text


def test_a_ratio_beyond_float64_is_printed_from_its_log10() -> None:
    text = render(reports.extreme(), width=160)
    assert "3.6e1234" in text
    assert "2.5e-435" in text
    assert "- max: it overflows float64" in squash(text)


def test_coverage_is_shown_when_anything_was_left_out() -> None:
    assert "COVERAGE" not in render(reports.ordinary(), width=160)
    text = render(reports.hollow(), width=160)
    assert (
        "COVERAGE 416 rollouts read: 0 analyzed, 3 without a scored token, 413 excluded "
        "(token_ids_differ 32, unmatched_trainer 381)"
    ) in text
    assert "36,511 unscored (nan 36,510, sentinel 1; by side: trainer_logprobs nan 36,510; " in squash(text)
    noted = reports.ordinary(coverage=reports.coverage(notes={"step_conflicts": 4, "none": 0}))
    assert "COVERAGE noted: step_conflicts 4\n" in render(noted)
    paired = reports.ordinary(coverage=reports.coverage(notes={"pairing_equal": 416}))
    assert "COVERAGE noted: rollouts whose token ids are equal on both sides 416\n" in render(paired, verbose=True)
    assert "COVERAGE" not in render(paired)


def test_without_a_scored_token_there_are_no_empty_tables() -> None:
    report = reports.hollow()
    page, whole = (render(report, width=100, verbose=verbose) for verbose in (False, True))
    assert "COVERAGE 416 rollouts read" in page
    assert [block for block in ("MISMATCH", "RATIO", "RECIPES", "BY step") if block in page] == []
    assert "MISMATCH" in whole
    assert "RECIPES" in whole


def test_a_finding_for_information_names_its_recipe() -> None:
    found = Finding("IS019", "information", "narrow", "It is.", evidence={"spec": "prime-rl/mis_po:geo_low=0.996"})
    assert "INFORMATION IS019 narrow (prime-rl/mis_po)\n" in render(reports.ordinary(findings=[found]))


@pytest.mark.parametrize(
    ("low", "high", "text"), [(0.2, 0.3, ".2..0.3"), (0.5, 2, ".5..2"), (None, 3, "..3"), (0.5, None, ".5..")]
)
def test_the_bounds_of_a_label_can_be_told_apart(low: float | None, high: float | None, text: str) -> None:
    bounds = ("none" if bound is None else bound for bound in (low, high))
    spec = "trl/token_mask:clip_min={},clip_max={}".format(*bounds)
    assert f"  trl/token_mask {text} " in render(reports.ordinary(recipes=[reports.recipe(spec)]), width=160)


def test_assumptions_follow_the_verdict() -> None:
    lines = render(reports.ordinary(), width=160).splitlines()
    assert lines[3].startswith("ASSUMED on-policy: ")


def test_framework_metrics_of_the_named_recipe() -> None:
    first, second = ("sampling/mean", Figure(0.5)), ("sampling/max", Figure(3.0))
    specs = ("trl/token_mask:clip_max=2", dict([first])), ("trl/sequence_mask:clip_max=3", dict([second]))
    plain = reports.ordinary(recipes=[reports.recipe(spec, framework=metrics) for spec, metrics in specs])
    named = replace(plain, recipes=[plain.recipes[0], replace(plain.recipes[1], named=True)])
    assert "LOGGED" not in render(plain)
    assert "sampling/mean 0.5000" in render(plain, verbose=True)
    assert "sampling/max 3.000" in render(named)
    assert "sampling/mean" not in render(named)
    both = render(named, verbose=True)
    assert "sampling/mean" in both
    assert "sampling/max" in both


def test_a_long_breakdown_shows_its_ends_unless_verbose() -> None:
    report = reports.ordinary(breakdowns={"step": [reports.step(n) for n in range(1000)]})
    text = render(report, width=100)
    assert "984 of 1,000 rows in the middle not shown; --verbose and JSON have all" in text
    assert "\n  7  " in text
    assert "\n  8  " not in text
    assert "\n  991  " not in text
    assert "\n  992  " in text
    assert "\n  500  " not in text
    assert "\n  500  " in render(report, width=100, verbose=True)


def test_breakdowns_by_a_column_of_words() -> None:
    rows = [reports.step("math"), reports.step(None), reports.step("")]
    text = render(reports.ordinary(breakdowns={"env": rows}), width=160)
    assert "BY env" in text
    assert "\n  math " in text
    assert "\n  (none) " in text
    assert "\n  (empty) " in text
    assert "steps" not in text.splitlines()[1]


def test_findings_say_severity_code_and_counts() -> None:
    text = squash(render(reports.hostile("odd"), width=100))
    assert "WARNING IS001 odd (7 tokens, 1 rollout): rollout odd is odd" in text
    assert "TRY look at odd" in text
    assert "rollout_id odd, position 3" not in text
    assert "rollout_id odd, position 3" in squash(render(reports.hostile("odd"), width=100, verbose=True))


def test_colour_only_adds_to_the_words() -> None:
    plain, coloured = (render(reports.future(), width=100, color=color) for color in (False, True))
    assert "\x1b" not in plain
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


def test_of_a_finding_only_what_the_dump_shows_unless_verbose() -> None:
    report = reports.ordinary(
        verdict=replace(reports.ordinary().verdict, action="mend IS012"),
        findings=[
            Finding("IS012", "warning", "sync", "It climbs. It may be a sync.", "mend IS012", "It climbs."),
            Finding("IS013", "warning", "lag", "It lags. It may be slow.", "mend IS013", "It lags."),
            Finding("IS019", "information", "narrow", "It is narrow.", "widen", "It is narrow."),
        ],
    )
    page = render(report, width=100)
    assert "\nTRY 1 mend IS012\nTRY 2 mend IS013\n" in page
    assert "\nWARNING IS012 sync: It climbs.\nWARNING IS013 lag: It lags.\nINFORMATION IS019 narrow\n" in page
    assert "iscope explain CODE" in page
    assert "widen" not in page
    whole = render(report, width=100, verbose=True)
    assert "\nWARNING IS012 sync: It climbs. It may be a sync. Try: mend IS012.\n" in whole
    assert "\nINFORMATION IS019 narrow: It is narrow. Try: widen.\n" in whole


def test_errors_come_before_anything_else_that_could_be_tried() -> None:
    ids = ("IS006", "error"), ("IS013", "warning")
    found = [Finding(code, severity, code, "It is.", action=f"mend {code}") for code, severity in ids]
    page = render(reports.ordinary(findings=found), width=100)
    assert "\nTRY mend IS006\n" in page
    assert "mend IS013" not in page


def test_assumptions_are_one_paragraph_unless_verbose() -> None:
    report = reports.ordinary(assumptions=["It is one.", "It is two."])
    assert "\nASSUMED It is one; It is two.\n" in render(report)
    assert "\nASSUMED It is one.\nASSUMED It is two.\n" in render(report, verbose=True)
    assert "ASSUMED" not in render(reports.ordinary(assumptions=[]))


def test_a_legend_is_printed_once_on_a_page() -> None:
    rows = [reports.step(0), reports.step(1)]
    text = squash(render(reports.ordinary(breakdowns={"step": rows, "lag": rows, "env": rows}), width=100))
    assert text.count("k3 = mean(exp(d)-1-d) and -log p (trainer): nats per scored token") == 1
    assert text.count("A=0: share of rollouts") == 1


def test_details_are_behind_verbose() -> None:
    plain, whole = (squash(render(reports.future(), width=100, verbose=verbose)) for verbose in (False, True))
    for detail in ("k2 mean(d^2)/2", "mean exp|d|", "chi^2", "mean -log p (trainer)", "max |d| 12.5", "k3 kept"):
        assert detail in whole
        assert (detail in plain) is (detail == "max |d| 12.5")
    assert "MORE --verbose: " in plain
    assert "MORE --verbose" not in whole


@pytest.mark.parametrize("name", ["NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS"])
def test_the_environment_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [render(reports.future(), width=100, color=color) for color in (False, True)]
    monkeypatch.setenv(name, "dumb" if name == "TERM" else "1")
    assert [render(reports.future(), width=100, color=color) for color in (False, True)] == before


def test_the_verdict_line_is_one_line() -> None:
    line = verdict_line(reports.hostile("a\nb"))
    assert line == "VERDICT NOT HEALTHY: it is a b"


def test_a_report_prints_as_its_page_and_shows_as_its_verdict() -> None:
    report = reports.ordinary()
    assert str(report) == render(report)
    assert repr(report).startswith("<Report NOT HEALTHY: the trainer lags the sampler by up to 3 steps;")
    assert len(repr(report)) < 200
