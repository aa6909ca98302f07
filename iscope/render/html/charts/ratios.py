"""The ratio at its three levels, on a logarithmic axis, and below it every bound that recipes put on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from iscope.model import Figures, RecipeReport, Report
from iscope.render.html.charts.chart import COLORS, Chart, Frame, Json, value, words
from iscope.render.nodes import at, entries
from iscope.render.numbers import count
from iscope.render.terminal.labels import label

_LEVELS = {"token": "token ratio exp(d)", "sequence": "sequence ratio exp(S)", "geometric": "geometric ratio exp(G)"}
_MOST = 14
_ROW, _PLOT = 27, 190  # pixels
_TICKS = (
    1.0,
    1.01,
    1.02,
    1.05,
    1.1,
    1.2,
    1.5,
    2.0,
    3.0,
    5.0,
    10.0,
    100.0,
    1e3,
    1e4,
    1e6,
    1e9,
    1e12,
    1e18,
    1e30,
    1e60,
    1e100,
)
_TICK_SHARE = 0.12  # of the axis, between two ticks


def charts(report: Report) -> list[Chart]:
    """Return a chart per policy pair and level that the report has a histogram of."""
    by_pair = at(report.parts, "distributions", "ratio")
    bounds = entries(at(report.parts, "distributions", "bounds"))
    found = []
    for place, (pair, levels) in enumerate(by_pair.items() if isinstance(by_pair, dict) else []):
        for level, title in _LEVELS.items():
            spread = at(levels, level) if isinstance(levels, dict) else None
            if isinstance(spread, dict):
                own = [bound for bound in bounds if bound.get("level") == level and bound.get("pair") == pair]
                found.append(
                    _chart(report, f"ratio_{level}_{place}", f"{title}, {pair.replace('/', ' over ')}", spread, own)
                )
    return found


def _chart(report: Report, place: str, title: str, spread: Figures, bounds: Sequence[Figures]) -> Chart:
    edges, counts = _histogram(spread)
    known = {recipe.spec: recipe for recipe in report.recipes}
    shown = [bound for bound in bounds if str(bound.get("spec")) in known][:_MOST]
    low, high = _range(edges, shown)
    rows = len(shown)
    height = _PLOT + 70 + _ROW * rows
    split = _ROW * rows / (_PLOT + _ROW * rows)
    frame = Frame()
    unit = words(spread.get("unit"))
    _draw(frame, spread, edges, counts)
    for row, bound in enumerate(shown):
        _bound(frame, row, bound, known[str(bound.get("spec"))], (low, high))
    frame.vertical(0, "@zero")
    return Chart(
        place,
        title[0].upper() + title[1:],
        f"{unit.capitalize()} on a logarithmic scale, by ratio on a logarithmic axis."
        + (" Below: what each bound lets pass." if rows else " No recipe bounds it."),
        frame.data,
        frame.finish(
            bargap=0,
            xaxis={"range": [low, high], "anchor": "y2" if rows else "y", "zeroline": False, **_ticks(low, high)},
            yaxis={"type": "log", "domain": [split + 0.06 if rows else 0, 1], "exponentformat": "power", "dtick": 1},
            yaxis2={"domain": [0, max(0.01, split)], "range": [rows - 0.35, -0.75], "visible": False},
            hovermode="closest",
        ),
        height=height,
        defines=("ratio", "bounds"),
        notes=_notes(spread, unit, len(bounds) - rows),
        width=4,
    )


def _draw(frame: Frame, spread: Figures, edges: Sequence[float], counts: Sequence[int]) -> None:
    frame.add(
        type="bar",
        x=[(a + b) / 2 for a, b in pairwise(edges)],
        y=counts,
        width=value(spread.get("width")),
        marker={"color": "@c6", "line": {"width": 0}},
        showlegend=False,
        customdata=_ranges(edges),
        hovertemplate=f"%{{customdata}}: %{{y:,}} {words(spread.get('unit'))}<extra></extra>",
    )


def _histogram(spread: Figures) -> tuple[list[float], list[int]]:
    listed = spread.get("counts")
    counts = [bin_ if isinstance(bin_, int) else 0 for bin_ in listed] if isinstance(listed, list) else []
    start, width = value(spread.get("start")) or 0.0, value(spread.get("width")) or 1.0
    return [start + index * width for index in range(len(counts) + 1)], counts


def _ranges(edges: Sequence[float]) -> list[str]:
    ratios = [_ratio(edge) for edge in edges]
    return [f"{low} to {high}" for low, high in pairwise(ratios)]


def _ratio(log: float) -> str:
    return f"{math.exp(log):.4g}".replace("e+0", "e").replace("e+", "e") if abs(log) < 700 else f"e^{log:.0f}"


def _range(edges: Sequence[float], bounds: Sequence[Figures]) -> tuple[float, float]:
    """The axis: all bins, and bounds as far out as half as much again."""
    span = edges[-1] - edges[0]
    near = [end for bound in bounds for key in ("low", "high") if (end := value(bound.get(key))) is not None]
    near = [end for end in near if edges[0] - span / 2 <= end <= edges[-1] + span / 2]
    low, high = min(edges[0], *near, 0.0), max(edges[-1], *near, 0.0)
    pad = 0.05 * (high - low or 1.0)
    return low - pad, high + pad


def _bound(frame: Frame, row: int, bound: Figures, recipe: RecipeReport, axis: tuple[float, float]) -> None:
    ends = [value(bound.get("low")), value(bound.get("high"))]
    drawn = [axis[side] if end is None else min(max(end, axis[0]), axis[1]) for side, end in enumerate(ends)]
    inside = [end is not None and axis[0] < end < axis[1] for end in ends]
    symbols = [
        "line-ns-open" if there else f"triangle-{way}" for there, way in zip(inside, ("left", "right"), strict=True)
    ]
    color = COLORS[row % len(COLORS)]
    written = "..".join("" if end is None else _ratio(end) for end in ends)
    signs = "" if bound.get("signs") in (None, "any") else f", advantage {words(bound.get('signs'))}"
    name = words(label(recipe), 80)
    frame.add(
        type="scatter",
        mode="lines+markers",
        x=drawn,
        y=[row, row],
        yaxis="y2",
        showlegend=False,
        line={"color": color, "width": 3},
        marker={"symbol": symbols, "size": 10, "color": color, "line": {"width": 2, "color": color}},
        cliponaxis=False,
        hovertemplate=f"{name}<br>{words(bound.get('rule'))} {written}{signs}<extra></extra>",
    )
    place: Json = {"xref": "paper", "x": 0, "xanchor": "left", "yref": "y2", "y": row - 0.12, "yanchor": "bottom"}
    place |= {"bgcolor": "@card", "borderpad": 0}
    frame.say(f"{_title(recipe, bound)} {written}", size=10.5, **place)
    for end, there in zip(ends, inside, strict=True):
        if there:
            frame.vertical(end, color)


def _title(recipe: RecipeReport, bound: Figures) -> str:
    rule = str(bound.get("rule"))
    return words(recipe.name, 28) + (
        "" if recipe.name.endswith(rule) or rule == "truncation" else f" {words(rule, 20)}"
    )


def _ticks(low: float, high: float) -> Json:
    """Ticks at round ratios, from 1 outward, as far apart as they can be read."""
    span = high - low
    logs = [0.0]
    for side in (1, -1):
        last = 0.0
        for ratio in _TICKS[1:]:
            log = side * math.log(ratio)
            if low <= log <= high and abs(log - last) >= _TICK_SHARE * span:
                logs.append(log)
                last = log
    return {
        "tickmode": "array",
        "tickvals": sorted(logs),
        "ticktext": [_tick(log) for log in sorted(logs)],
        "tickangle": 0,
    }


def _tick(log: float) -> str:
    ratio = math.exp(abs(log))
    text = f"{ratio:.0e}".replace("e+0", "e").replace("e+", "e") if ratio > 5000 else f"{ratio:g}"
    return text if log >= 0 else f"1/{text}"


def _notes(spread: Figures, unit: str, hidden: int) -> tuple[str, ...]:
    outside = [(spread.get(side), side) for side in ("below", "above")]
    said = [f"{count(n)} {unit} {side}" for n, side in outside if isinstance(n, int) and n]
    notes = [f"Not drawn, further out: {', '.join(said)}."] if said else []
    return (*notes, *([f"{hidden} more bounds are in the JSON report."] if hidden > 0 else []))
