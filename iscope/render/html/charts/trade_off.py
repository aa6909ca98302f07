"""The trade: what a correction still carries of the gradient, against how far that is from the unbiased product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iscope.model import RecipeReport, Report
from iscope.render.blocks.own import advised_spec, own_specs
from iscope.render.html.charts.beside import Plot, beside
from iscope.render.html.charts.chart import COLORS, SYMBOLS, Chart, Frame, Json, plain, thinned, value, words
from iscope.render.nodes import at, entries
from iscope.render.numbers import number
from iscope.render.terminal.labels import label

_MOST_TEXTS = 14
_LIMIT = 2.0  # of the axis of gradient left; what lies further out is drawn at its end
_MOST_FAR = 6
_CLOSE = 0.08
_PATH = 3  # settings of one recipe that make a line
_WIDE, _SMALL = (340.0, 390.0), (280.0, 390.0)  # pixels of the plot, at the least
_Axes = tuple[tuple[float, float], tuple[float, float]]


_STYLES: dict[str, Json] = {
    "recipes": {"size": 9, "color": "@c0"},
    "front": {"size": 15, "symbol": "diamond-open", "color": "@c2", "line": {"width": 2}},
    "yours": {"size": 19, "symbol": "circle-open", "color": "@c1", "line": {"width": 2.5}},
    "advised": {"size": 20, "symbol": "star", "color": "@c3"},
}


@dataclass(frozen=True)
class _Point:
    recipe: RecipeReport
    left: float
    product: float

    @property
    def x(self) -> float:
        """Where it is drawn."""
        return min(self.left, _LIMIT)

    @property
    def hover(self) -> str:
        left, product = number(self.left), f"{self.product:.1%}"
        return f"{words(label(self.recipe), 120)}<br>gradient left {left}<br>product left {product}"


def charts(report: Report) -> list[Chart]:
    """Return the plot where the dump has advantages."""
    found = [_point(recipe) for recipe in report.recipes]
    points = [point for point in found if point is not None]
    if not points:
        return []
    shown = [points[place] for place in thinned(len(points))]
    most = min(_LIMIT, max(1.0, *(point.left for point in points)))
    axes = (-0.06 * most, 1.08 * most), (-0.1, 1.06)
    frame = Frame()
    _lines(frame, shown)
    _dots(frame, report, shown, axes)
    frame.vertical(1, "@zero", width=1.5)
    return [
        Chart(
            "trade_off",
            "Gradient left against product left",
            "Gradient left: policy-term gradient over that of the same loss at weight 1 with everything kept, all "
            "signs. Product left: share of the kept gradient in rollouts weighted otherwise than by exp(S), by more "
            "than a factor of 2. Right is more gradient, down is closer to unbiased.",
            frame.data,
            frame.finish(
                xaxis={"title": {"text": "gradient left"}, "range": [*axes[0]]},
                yaxis={
                    "title": {"text": "product left"},
                    "tickformat": ".0%",
                    "range": [*axes[1]],
                    "zeroline": True,
                },
                showlegend=len(frame.data) > 1,
                hovermode="closest",
            ),
            height=470,
            defines=("gradient_left", "product_left"),
            notes=_far(points),
            width=5,
        )
    ]


def _far(points: Sequence[_Point]) -> tuple[str, ...]:
    far = [f"{plain(label(point.recipe))} at {number(point.left)}" for point in points if point.left > _LIMIT]
    more = f" and {len(far) - _MOST_FAR} more" if len(far) > _MOST_FAR else ""
    return (f"Off the scale, at its right end: {', '.join(far[:_MOST_FAR])}{more}.",) if far else ()


def _point(recipe: RecipeReport) -> _Point | None:
    left, product = value(at(recipe.figures, "gradient_left", "all")), value(at(recipe.figures, "product_left"))
    return None if left is None or product is None else _Point(recipe, left, product)


def _lines(frame: Frame, points: Sequence[_Point]) -> None:
    """Join the settings of one recipe: a sweep."""
    for index, (name, members) in enumerate(_sweeps(points).items()):
        ordered = sorted(members, key=lambda point: (point.left, point.product))
        color = COLORS[index % len(COLORS)]
        frame.add(
            type="scatter",
            mode="lines+markers",
            x=[p.x for p in ordered],
            y=[p.product for p in ordered],
            text=[p.hover for p in ordered],
            hovertemplate="%{text}<extra></extra>",
            name=words(name),
            line={"color": color, "width": 1.2},
            marker={"size": 6, "symbol": SYMBOLS[index % len(SYMBOLS)], "color": color},
        )


def _sweeps(points: Sequence[_Point]) -> dict[str, list[_Point]]:
    by_name: dict[str, list[_Point]] = {}
    for point in points:
        by_name.setdefault(point.recipe.name, []).append(point)
    return {name: members for name, members in by_name.items() if len(members) >= _PATH}


def _dots(frame: Frame, report: Report, points: Sequence[_Point], axes: _Axes) -> None:
    own, advised = own_specs(report), advised_spec(report)
    front = {str(entry.get("spec")) for entry in entries(at(report.parts, "front"))}
    # The legend names the recipe of a sweep.
    swept = _sweeps(points)
    few = [point for point in points if point.recipe.name not in swept] if len(points) <= _MOST_TEXTS else []
    _group(frame, "front", "on the front", [point for point in points if point.recipe.spec in front])
    _group(frame, "recipes", "recipes", few, axes)
    _group(frame, "yours", "yours", [point for point in points if point.recipe.spec in own])
    chosen = [point for point in points if point.recipe.spec == advised]
    _group(frame, "advised", f"advised: {words(label(chosen[0].recipe))}" if chosen else "", chosen)


def _group(frame: Frame, style: str, name: str, points: Sequence[_Point], axes: _Axes | None = None) -> None:
    if not points:
        return
    written: Json = {}
    if axes is not None:
        wide, small = (_written(points, Plot(*axes, *size)) for size in (_WIDE, _SMALL))
        written = {**wide, "textfont": {"size": 10.5}, "meta": {"small": small}}
    frame.add(
        type="scatter",
        mode="markers+text" if written else "markers",
        x=[point.x for point in points],
        y=[point.product for point in points],
        marker=_STYLES[style],
        name=name,
        hovertemplate="%{hovertext}<extra></extra>",
        hovertext=[point.hover for point in points],
        cliponaxis=False,
        **written,
    )


def _written(points: Sequence[_Point], plot: Plot) -> Json:
    places = [(point.x, point.product) for point in points]
    texts, positions = beside(_texts(points), places, _positions(points), plot)
    return {"text": texts, "textposition": positions}


def _texts(points: Sequence[_Point]) -> list[str]:
    """Short names; of several at about the same place the first says how many more it stands for."""
    leads: list[int] = []
    for place, point in enumerate(points):
        near = (lead for lead in dict.fromkeys(leads) if _close(points[lead], point))
        leads.append(next(near, place))
    return [
        "" if lead != place else _name(point) + (f" +{more}" if (more := leads.count(lead) - 1) else "")
        for place, (lead, point) in enumerate(zip(leads, points, strict=True))
    ]


def _close(one: _Point, other: _Point) -> bool:
    return abs(one.x - other.x) < _CLOSE and abs(one.product - other.product) < _CLOSE


def _name(point: _Point) -> str:
    far = f" {number(point.left)} →" if point.left > _LIMIT else ""
    return words(point.recipe.name, 28) + far


def _positions(points: Sequence[_Point]) -> list[str]:
    """Where each name stands beside its point: inward, and above and below in turn where points are at one height."""
    largest = max(point.x for point in points)
    above: dict[int, bool] = {}
    last: _Point | None = None
    turn = False
    for place in sorted(range(len(points)), key=lambda place: (points[place].product, points[place].x)):
        point = points[place]
        level = last is not None and abs(last.product - point.product) < _CLOSE
        turn = not turn if level else point.product <= 0.5
        above[place], last = turn, point
    sides = ["left" if point.x > 0.5 * largest else "right" for point in points]
    return [f"{'top' if above[place] else 'bottom'} {side}" for place, side in enumerate(sides)]
