"""keep(T): what bounds on whole rollouts keep at each length, over the lengths of the dump."""

from __future__ import annotations

from iscope.model import Figures, RecipeReport, Report
from iscope.render.blocks.own import leading
from iscope.render.html.charts.chart import COLORS, SYMBOLS, Chart, Frame, Json, value, words
from iscope.render.nodes import at, entries
from iscope.render.terminal.labels import label

_MOST = 6
_LAYOUT: Json = {
    "xaxis": {"title": {"text": "T, scored tokens"}, "type": "category"},
    "yaxis": {"side": "right", "showgrid": False, "title": {"text": "rollouts"}, "rangemode": "tozero"},
    "yaxis2": {
        "side": "left",
        "overlaying": "y",
        "tickformat": ".0%",
        "dtick": 0.2,
        "range": [0, 1.05],
        "title": {"text": "kept"},
    },
    "hovermode": "x unified",
    "margin": {"r": 58},
}
_STATISTICS = {"sequence": "exp(S)", "geometric": "exp(G)"}


def charts(report: Report) -> list[Chart]:
    """Return the plot where recipes have bounds on S or G: those of the user's own, else the first ones."""
    rules = [
        (recipe, entry)
        for recipe in leading(report, len(report.recipes))
        for entry in entries(at(recipe.figures, "keep_at_length"))
        if entries(entry.get("lengths"))
    ]
    if not rules:
        return []
    shown = rules[:_MOST]
    frame = Frame()
    buckets = entries(shown[0][1].get("lengths"))
    names = [_bucket(bucket) for bucket in buckets]
    frame.add(
        type="bar",
        x=names,
        y=[value(bucket.get("rollouts")) for bucket in buckets],
        name="rollouts (right axis)",
        marker={"color": "@bar"},
        hovertemplate="%{y:,} rollouts",
    )
    for index, (recipe, entry) in enumerate(shown):
        _draw(frame, index, recipe, entry)
    left_out = len(rules) - len(shown)
    return [
        Chart(
            "keep",
            "keep(T): what bounds on whole rollouts keep, by length",
            "Share of the rollouts of T scored tokens within the bounds: solid as observed in the replay, dotted as "
            "predicted from the mean and the noise of d. Bars: rollouts of each length.",
            frame.data,
            frame.finish(**_LAYOUT),
            height=380 + 22 * len(shown),
            defines=("keep",),
            notes=(f"{left_out} more rules are in the JSON report.",) if left_out else (),
            width=7,
        )
    ]


def _bucket(bucket: Figures) -> str:
    low, high = value(bucket.get("low")), value(bucket.get("high"))
    return "-".join(dict.fromkeys("?" if end is None else f"{end:,.0f}" for end in (low, high)))


def _draw(frame: Frame, index: int, recipe: RecipeReport, entry: Figures) -> None:
    buckets = entries(entry.get("lengths"))
    names = [_bucket(bucket) for bucket in buckets]
    color = COLORS[index % len(COLORS)]
    statistic = _STATISTICS.get(str(entry.get("level")), "?")
    name = words(f"{label(recipe)}, {entry.get('filter', '?')} on {statistic}", 90)
    common = {"type": "scatter", "x": names, "yaxis": "y2", "legendgroup": str(index), "hovertemplate": "%{y:.1%}"}
    frame.add(
        **common,
        y=[value(bucket.get("observed")) for bucket in buckets],
        mode="lines+markers",
        name=name,
        line={"color": color, "width": 2.4},
        marker={"symbol": SYMBOLS[index % len(SYMBOLS)], "size": 8},
    )
    frame.add(
        **common,
        y=[value(bucket.get("predicted")) for bucket in buckets],
        mode="lines",
        name=f"{name}, predicted",
        line={"color": color, "width": 1.6, "dash": "dot"},
        showlegend=False,
    )
