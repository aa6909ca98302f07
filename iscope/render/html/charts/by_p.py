"""The mismatch by the probability of the sampled token: where the tokens, the k3 and the gradient are."""

from __future__ import annotations

from iscope.model import Figures, Report
from iscope.render.html.charts.chart import Chart, Frame, value, whole_percent, words
from iscope.render.nodes import at, entries

_SHARES = (
    ("token_share", "scored tokens", ""),
    ("k3_share", "sum of k3", "/"),
    ("gradient_share", "uncorrected gradient |A|(1-p)", "x"),
)


def charts(report: Report) -> list[Chart]:
    """Return the bars where the report has buckets of q."""
    buckets = entries(at(report.mismatch, "by_p"))
    if not buckets:
        return []
    names = [_name(bucket) for bucket in buckets]
    frame = Frame()
    for index, (key, name, pattern) in enumerate(_SHARES):
        shares = [value(bucket.get(key)) for bucket in buckets]
        if any(share is not None for share in shares):
            frame.add(
                type="bar",
                x=names,
                y=shares,
                name=name,
                hovertemplate="%{y:.1%}",
                text=[words(whole_percent(share)) for share in shares],
                textposition="outside",
                cliponaxis=False,
                marker={"color": f"@c{index}", "pattern": {"shape": pattern, "size": 5}},
            )
    return [
        Chart(
            "by_p",
            "By the probability q of the sampled token",
            "Share of the scored tokens, of the sum of k3 and of the uncorrected gradient in each bucket of q = "
            "exp(inference logprob): k3 alone moves with how peaked the sampling is.",
            frame.data,
            frame.finish(
                barmode="group",
                uniformtext={"mode": "show", "minsize": 9},
                xaxis={"type": "category"},
                yaxis={"tickformat": ".0%", "rangemode": "tozero"},
            ),
            height=340,
            defines=("by_p", "gap"),
            width=6,
        )
    ]


def _name(bucket: Figures) -> str:
    low, high = value(bucket.get("low")) or 0.0, value(bucket.get("high")) or 0.0
    return f"q < {high:g}" if low == 0 else f"q ≥ {low:g}" if high == 1 else f"{low:g} - {high:g}"
