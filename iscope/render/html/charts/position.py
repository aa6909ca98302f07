"""The mismatch along a rollout."""

from __future__ import annotations

from iscope.model import Figures, Report
from iscope.render.html.charts.chart import Chart, Frame, log_ticks, value
from iscope.render.nodes import at, entries

_CURVES = (("k3", "k3, nats/token", "solid", "circle"), ("abs_mean", "mean |d|, nats", "dash", "square"))


def charts(report: Report) -> list[Chart]:
    """Return the curve where the report has the mismatch by position."""
    buckets = entries(at(report.parts, "distributions", "position"))
    if len(buckets) < 2:
        return []
    frame = Frame()
    _draw(frame, buckets)
    curves = [value(bucket.get(key)) for bucket in buckets for key, _, _, _ in _CURVES]
    return [
        Chart(
            "position",
            "Along the rollout",
            "Trainer over inference by the position of the token from the first loss token on, over the tokens of the "
            "ledger's sample; the axis of the mismatch is logarithmic.",
            frame.data,
            frame.finish(
                xaxis={"type": "category", "title": {"text": "position"}},
                yaxis={"side": "right", "showgrid": False, "rangemode": "tozero"},
                yaxis2={"overlaying": "y", "side": "left", "title": {"text": "nats"}, **log_ticks(curves)},
                hovermode="x unified",
                margin={"r": 50},
            ),
            height=380,
            defines=("k3", "position"),
            width=6,
        )
    ]


def _draw(frame: Frame, buckets: list[Figures]) -> None:
    names = [_name(bucket) for bucket in buckets]
    frame.add(
        type="bar",
        x=names,
        y=[value(bucket.get("tokens")) for bucket in buckets],
        name="scored tokens (right axis)",
        marker={"color": "@bar"},
        hovertemplate="%{y:,} tokens",
    )
    for index, (key, name, dash, symbol) in enumerate(_CURVES):
        frame.add(
            type="scatter",
            mode="lines+markers",
            x=names,
            yaxis="y2",
            y=[value(bucket.get(key)) for bucket in buckets],
            name=name,
            line={"color": f"@c{index}", "width": 2.2, "dash": dash},
            marker={"symbol": symbol, "size": 7},
            hovertemplate="%{y:.3~g}",
        )


def _name(bucket: Figures) -> str:
    low, high = value(bucket.get("low")) or 0.0, value(bucket.get("high")) or 0.0
    return f"{low:,.0f}" if low == high else f"{low:,.0f}-{high:,.0f}"
