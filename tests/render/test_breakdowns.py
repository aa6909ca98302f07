"""What a terminal shows of breakdowns, of the mismatch by p and of the lag."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from iscope.model import Figure, Figures, Report
from iscope.render.terminal import render
from tests.render import reports

WIDTHS = (40, 60, 71, 72, 80, 100, 160)
SPECS = ["none", "trl/token_mask:clip_min=0.5,clip_max=2", "icepop:low=0.5,high=5"]


def squash(text: str) -> str:
    return " ".join(text.split())


def headline(spec: str, value: float) -> Figures:
    return {
        "spec": spec,
        "effective_batch_size": {"value": value, "basis": "gradient", "base": Figure(96.0)},
        "gradient_left": {"all": Figure(0.5)},
        "kept": {"tokens": 3, "rollouts": 2},
    }


def bucket(low: float, high: float, **changes: object) -> Figures:
    shares = {"token_share": Figure(0.356), "k3_share": Figure(0.693), "gradient_share": Figure(0.564)}
    return {"low": low, "high": high, "tokens": 123456, **shares, "k3": Figure(0.0277), **changes}  # type: ignore[dict-item]


def report(rows: int = 3, by: str = "lag", **mismatch: object) -> Report:
    lines = [
        reports.step(n, recipes=[headline(spec, 10.0 * n + place + 0.25) for place, spec in enumerate(SPECS)])
        for n in range(rows)
    ]
    ordinary = reports.ordinary()
    return reports.ordinary(
        recipes=[reports.recipe(spec) for spec in SPECS],
        breakdowns={by: lines},
        mismatch=ordinary.mismatch | mismatch,
    )


def by_p() -> list[Figures]:
    return [
        bucket(0.0, 0.1),
        bucket(0.1, 0.5),
        bucket(0.5, 0.9),
        bucket(0.9, 1.0, gradient_share=Figure.absent("no A")),
    ]


def lag(**changes: object) -> Figures:
    ends: Figures = {"min": Figure(0.0), "mean": Figure(1.5), "max": Figure(3.0), "rollouts": 416}
    return ends | {"parts": Figure.absent("no current logprobs"), "names": "mixed"} | changes  # type: ignore[operator]


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_wider_than_the_page(width: int, verbose: bool) -> None:
    parts = {name: {"k1": Figure(-0.0012), "k3": Figure(0.0034)} for name in ("engine", "lag", "total")}
    shown = report(100, by_p=by_p(), lag=lag(parts=parts))
    text = render(shown, width=width, verbose=verbose)
    assert [line for line in text.splitlines() if cell_len(line) > width or line != line.rstrip()] == []
    assert "…" not in text
    for piece in (
        "35.6% tokens, 69.3% k3, 56.4% gradient" + (", k3 0.0277" if verbose else ""),
        "0 to 3, mean 1.50 over 416 rollouts",
        "0.00340",
    ):
        assert piece in squash(text)


def test_effective_rollouts_have_a_column_per_recipe() -> None:
    lines = render(report(), width=160).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("BY lag, effective rollouts"))
    assert "none" in lines[start]
    assert [line.split() for line in lines[start + 1 : start + 4]] == [
        ["0", "0.250", "1.25", "2.25"],
        ["1", "10.2", "11.2", "12.2"],
        ["2", "20.2", "21.2", "22.2"],
    ]
    head = squash(" ".join(lines[start - 3 : start + 1]))
    for word in ("token_mask", "icepop", ".5..2", ".5..5"):
        assert word in head
    assert "effective rollouts: (sum g)^2 / sum g^2 over the row's rollouts" in squash("".join(lines))


def test_a_narrow_page_has_a_record_per_row() -> None:
    text = squash(render(report(), width=60))
    assert "BY lag, effective rollouts 0 none 0.250 " in text
    assert "icepop .5..5 22.2" in text


def test_without_recipes_there_is_one_table() -> None:
    text = render(reports.ordinary(), width=100)
    assert text.count("BY step") == 1
    assert "effective rollouts: (sum g)^2 / sum g^2 over the row's" not in squash(text)


def test_a_recipe_that_some_rows_lack_leaves_their_cells_empty() -> None:
    shown = report(2)
    del shown.breakdowns["lag"][0]["recipes"][1]  # type: ignore[union-attr, arg-type]
    text = squash(render(shown, width=60))
    assert "0 none 0.250 icepop .5..5 2.25" in text


def test_both_tables_of_a_long_breakdown_say_what_is_left_out() -> None:
    text = render(report(100), width=100)
    assert text.count("84 of 100 rows in the middle not shown; --verbose and JSON have all") == 2
    assert "\n  50  " not in text
    assert render(report(16), width=100).count("not shown") == 0
    assert render(report(100), width=160, verbose=True).count("\n  50  ") == 2


def test_k1_of_a_part_is_for_verbose_pages() -> None:
    def heads(verbose: bool) -> str:
        lines = render(reports.ordinary(), width=160, verbose=verbose).splitlines()
        return next(line for line in lines if line.startswith("BY step"))

    assert "k1" not in heads(False).split()
    assert "k1" in heads(True).split()


def test_the_mismatch_by_p() -> None:
    text, whole = (squash(render(report(by_p=by_p()), width=160, verbose=verbose)) for verbose in (False, True))
    assert "BY p q of the sampled token: shares of scored tokens, of the sum of k3" in text
    assert "q<0.1: 35.6% tokens, 69.3% k3, 56.4% gradient q 0.1-0.5: 35.6%" in text
    assert "q>=0.9: 35.6% tokens, 69.3% k3 " in text
    assert "q<0.1: 35.6% tokens, 69.3% k3, 56.4% gradient, k3 0.0277 q 0.1-0.5: 35.6%" in whole
    assert "k3 of the bucket in nats/token" in whole
    assert "BY p" not in render(report(), width=160)


def test_the_breakdown_by_p_is_no_second_table() -> None:
    rows = [{"value": "0-0.1", **bucket(0.0, 0.1)}]
    both = reports.ordinary(breakdowns={"p": rows}, mismatch={"by_p": [bucket(0.0, 0.1)]})
    assert render(both, width=160).count("BY p") == 1
    alone = reports.ordinary(breakdowns={"p": rows}, mismatch={})
    assert "q<0.1: 35.6% tokens" in render(alone, width=160)


def test_the_lag_says_what_the_mismatch_measures() -> None:
    text = render(report(lag=lag()), width=160)
    assert (
        "\nLAG trainer version - policy version: 0 to 3, mean 1.50 over 416 rollouts; "
        "trainer over inference measures: engine in some rollouts, engine + lag in the others\n"
    ) in text
    same = lag(min=Figure(2.0), mean=Figure(2.0), max=Figure(2.0), names="engine + lag")
    assert "policy version: 2 over 416 rollouts; trainer over inference measures: engine + lag" in render(
        report(lag=same), width=160
    )


def test_a_lag_that_is_not_known_is_said_on_request() -> None:
    absent = Figure.absent("the dump has no trainer_version")
    unknown = report(lag=lag(min=absent, mean=absent, max=absent, rollouts=0, names="unknown"))
    assert "the dump has no trainer_version" not in render(unknown, width=160)
    assert "- lag: the dump has no trainer_version" in render(unknown, width=160, verbose=True)


def test_the_parts_of_the_mismatch() -> None:
    figures = {"k1": Figure(0.5), "k3": Figure(0.25), "abs_mean": Figure(0.125), "abs_max": Figure(2.0)}
    text = render(report(lag=lag(parts={"engine": figures, "lag": figures, "total": figures})), width=160)
    row = next(line for line in text.splitlines() if line.startswith("  lag: current over trainer"))
    assert row.split()[4:] == ["0.500", "0.250", "0.125", "2.00"]
    assert "engine: trainer over inference" in text
    assert "total: current over inference" in text
