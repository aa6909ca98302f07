from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from iscope.model import Figure, Report
from iscope.render.blocks.comparison import looked_at, parts_by_lag
from iscope.render.blocks.own import advised_spec, leading, own_specs
from iscope.render.html.charts import FIRST, LATER, Chart, charts
from iscope.render.html.charts.chart import log_ticks, thinned, whole_percent, words
from iscope.render.terminal.labels import label
from tests.render.full_reports import full, real
from tests.render.reports import bare, ordinary, recipe, step


def made(report: Report) -> dict[str, Chart]:
    return {chart.id: chart for chart in [*charts(report, FIRST), *charts(report, LATER)]}


def points(chart: Chart, name: str) -> dict[str, Any]:
    return next(trace for trace in chart.data if trace.get("name") == name)


def weighed(spec: str, left: float | None, product: float = 0.5, **changes: Any) -> Any:
    gone = Figure.absent("no advantage")
    figures = {
        "gradient_left": {"all": gone if left is None else Figure(left)},
        "product_left": Figure(product),
        "effective_batch_size": {"value": Figure(30.0), "base": Figure(60.0)},
    }
    return recipe(spec, **figures, **changes)


def test_a_report_without_figures_has_no_charts() -> None:
    assert made(bare()) == {}


def test_every_row_of_the_page_is_filled() -> None:
    for report in (real("async"), real("fresh"), full("x"), ordinary()):
        for part in (FIRST, LATER):
            across = 0
            for chart in charts(report, part):
                across = chart.width if across + chart.width > 12 else across + chart.width
                assert across <= 12
            assert across in (0, 12)


def test_the_timeline_has_the_numbers_of_the_breakdown() -> None:
    report = real("async")
    rows = report.breakdowns["step"]
    chart = made(report)["timeline"]
    k3 = chart.data[0]
    assert k3["x"] == [row["value"] for row in rows]
    assert k3["y"] == [row["k3"].value for row in rows]  # type: ignore[union-attr]
    highs = [None if row["k3"].high is None else row["k3"].high - row["k3"].value for row in rows]  # type: ignore[union-attr,operator]
    assert k3["error_y"]["array"] == highs


def test_the_onset_is_marked_in_the_panel_that_moved() -> None:
    chart = made(full("x"))["timeline"]
    marks = [shape for shape in chart.layout["shapes"] if shape["line"]["color"] == "@bad"]
    assert [mark["x0"] for mark in marks] == [7]
    assert [marks[0]["y0"], marks[0]["y1"]] == chart.layout["yaxis"]["domain"]
    assert "k3 at step 7, x at step x" in chart.notes[0]


@pytest.mark.parametrize("count", [0, 1, 4_999, 5_000, 5_001, 10_000, 1_234_567])
def test_no_trace_has_more_points_than_a_screen(count: int) -> None:
    found = thinned(count)
    assert len(found) <= 5_000
    assert len(found) == count or len(found) > 2_500
    assert not found or found[0] == 0


def test_long_timelines_say_that_they_are_thinned() -> None:
    rows = [step(n) for n in range(12_000)]
    chart = made(ordinary(breakdowns={"step": rows}))["timeline"]
    assert "4,000 of 12,000 steps are drawn" in chart.lead
    assert chart.data[0]["x"][:3] == [0, 3, 6]


def test_what_is_off_the_scale_is_drawn_at_its_end_and_said() -> None:
    report = ordinary(recipes=[weighed("none", 1.0), weighed("trl/token_mask:clip_min=0.5,clip_max=2", 2e7)])
    chart = made(report)["trade_off"]
    assert points(chart, "recipes")["x"] == [1.0, 2.0]
    assert f"{label(report.recipes[1])} at 2.00e7" in chart.notes[0]
    assert chart.layout["xaxis"]["range"][1] > 2


def test_recipes_without_a_gradient_are_not_in_the_trade_off() -> None:
    assert "trade_off" not in made(ordinary(recipes=[weighed("none", None)]))


def test_names_at_one_place_are_counted_not_printed_over_each_other() -> None:
    near = [weighed(f"trl/token_mask:clip_min=0.{n},clip_max=2", 0.9 + n / 1000) for n in (1, 2)]
    report = ordinary(recipes=[weighed("none", 0.905), *near, weighed("icepop:low=0.5,high=5", 0.2)])
    assert points(made(report)["trade_off"], "recipes")["text"] == ["none +2", "", "", "icepop"]


def test_the_users_own_run_is_ringed_and_comes_first() -> None:
    report = ordinary(recipes=[weighed("none", 1.0), weighed("icepop:low=0.5,high=5", 0.7, named=True)])
    assert points(made(report)["trade_off"], "yours")["x"] == [0.7]
    assert own_specs(report) == {"icepop:low=0.5,high=5"}
    assert [one.name for one in leading(report, 1)] == ["icepop"]


def test_in_a_comparison_the_advised_setting_is_marked_and_the_named_are_not() -> None:
    settings = [weighed(f"icepop:low=0.{n},high=5", n / 10, named=True) for n in range(1, 9)]
    parts: Any = {"settings": {}, "advice": {"spec": settings[4].spec}, "front": [{"spec": settings[7].spec}]}
    report = ordinary(recipes=settings, parts=parts)
    assert own_specs(report) == set()
    assert advised_spec(report) == settings[4].spec
    chart = made(report)["trade_off"]
    assert points(chart, f"advised: {label(settings[4])}")["x"] == [0.5]
    assert points(chart, "on the front")["x"] == [0.8]
    assert points(chart, "icepop")["x"] == [n / 10 for n in range(1, 9)]


def test_keep_draws_observed_and_predicted_over_the_lengths() -> None:
    report = real("async")
    chart = made(report)["keep"]
    entry: Any = next(one for one in report.recipes if one.name == "trl/sequence_mask").figures["keep_at_length"]
    lengths = entry[0]["lengths"]
    assert chart.data[0]["y"] == [bucket["rollouts"] for bucket in lengths]
    assert chart.data[1]["y"] == [bucket["observed"].value for bucket in lengths]
    assert chart.data[2]["y"] == [bucket["predicted"].value for bucket in lengths]
    assert chart.data[2]["line"]["dash"] == "dot"


def test_bars_by_p_are_the_shares_of_the_report() -> None:
    report = real("async")
    buckets: Any = report.mismatch["by_p"]
    data = made(report)["by_p"].data
    for trace, key in zip(data, ("token_share", "k3_share", "gradient_share"), strict=True):
        assert trace["y"] == [bucket[key].value for bucket in buckets]
    assert len({trace["marker"]["pattern"]["shape"] for trace in data}) == 3


def test_bounds_lie_where_they_are_and_open_ends_reach_the_edge() -> None:
    chart = made(real("async"))["ratio_token_0"]
    drawn = {one["hovertemplate"].partition("<br>")[0]: one["x"] for one in chart.data if one.get("yaxis") == "y2"}
    low, high = chart.layout["xaxis"]["range"]
    by_name = {one.name: drawn.get(label(one)) for one in real("async").recipes}
    assert by_name["trl/token_mask"] == [pytest.approx(math.log(0.5)), pytest.approx(math.log(2))]
    assert by_name["trl/token_truncate"] == [low, pytest.approx(math.log(2))]
    assert all(low <= end <= high for ends in drawn.values() for end in ends)
    histogram = chart.data[0]
    assert sum(histogram["y"]) == sum(
        real("async").parts["distributions"]["ratio"]["trainer/inference"]["token"]["counts"]
    )  # type: ignore[index,call-overload,arg-type]


@pytest.mark.parametrize(("low", "high"), [(-0.01, 0.01), (-2.0, 1.5), (-300.0, 40.0), (0.0, 0.0)])
def test_ticks_of_ratios_are_round_and_apart(low: float, high: float) -> None:
    from iscope.render.html.charts.ratios import _ticks

    found = _ticks(low, high)
    assert 0.0 in found["tickvals"]
    assert len(found["tickvals"]) <= 10
    for log, text in zip(found["tickvals"], found["ticktext"], strict=True):
        top, _, bottom = text.partition("/")
        assert math.log(float(top) / float(bottom or 1)) == pytest.approx(log, abs=1e-9)


def test_two_swept_options_make_a_map() -> None:
    report = full("x")
    chart = made(report)["map_1"]
    assert chart.title == "trl/token_mask: clip_min against clip_max"
    assert (chart.data[0]["x"], chart.data[0]["y"]) == (["0.5", "0.7"], ["2", "3"])
    assert chart.data[0]["z"] == [[0.44, 0.44], [0.44, 0.44]]
    three = [replace(one, options={**one.options, "epsilon": n}) for n, one in enumerate(report.recipes)]
    assert "map_0" not in made(replace(report, recipes=three))


def test_a_lag_shows_what_is_left_of_the_base() -> None:
    report = real("async")
    chart = made(report)["lag"]
    rows: Any = report.breakdowns["lag"]
    assert chart.data[0]["x"] == [f"lag {row['value']}" for row in rows]
    first = [row["recipes"][0]["effective_batch_size"] for row in rows]
    assert chart.data[0]["z"][0] == [float(one["value"]) / one["base"].value for one in first]


def test_words_for_plotly_hold_no_tags_and_no_controls() -> None:
    assert words("<b>a</b> & \x1b") == "&lt;b&gt;a&lt;/b&gt; &amp; \\x1b"
    assert len(words("x" * 999)) == 60


@pytest.mark.parametrize(
    ("share", "text"),
    [(None, ""), (0.0, "0%"), (1e-9, "<1%"), (0.5, "50%"), (0.9999, ">99%"), (1.0, "100%"), (1.3, "130%")],
)
def test_no_false_nothing_and_no_false_all(share: float | None, text: str) -> None:
    assert whole_percent(share) == text


def test_log_ticks_cover_what_is_drawn() -> None:
    ticks = log_ticks([0.013, 0.27, None, 0.0])["tickvals"]
    assert min(ticks) <= 0.013 < 0.27 <= max(ticks)
    assert log_ticks([None, 0.0]) == {}
    assert log_ticks([1e-12, 1.0])["tickvals"][0] == pytest.approx(1e-12)


def test_a_comparison_says_what_it_looked_at() -> None:
    assert looked_at(ordinary()) == []
    assert looked_at(full("x")) == [
        "9 settings tried, 8 of them from sweeps",
        "8 meet x",
        "skipped 1: x",
        "ordered by x",
    ]


def test_the_parts_of_the_mismatch_stand_by_lag() -> None:
    assert parts_by_lag(ordinary()) is None
    found = parts_by_lag(full("x"))
    assert found is not None
    assert [cell.text for cell in found.rows[0].cells] == ["0.100", "-", "0.200"]
    assert found.reasons == ["- lag: current over trainer, k3, nats/token: x"]
