"""The steps of the run: one panel per figure over a shared axis, with the onset of what moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iscope.model import Figures, Node, Report
from iscope.render.blocks.own import own_specs
from iscope.render.html.charts.chart import COLORS, DASHES, Chart, Frame, Json, ends, plain, thinned, values, words
from iscope.render.nodes import at, entries
from iscope.render.terminal.labels import label

_GAP = 0.045
_PANEL = 94  # pixels
_MOST_RECIPES = 4
_MOST_MARKERS = 60


@dataclass(frozen=True)
class _Panel:
    """A figure over the steps: its column in the breakdown, its title, and how its values are written."""

    key: str
    title: str
    form: str = ".3~g"
    share: bool = False


_PANELS = (
    _Panel("k3", "k3, nats/token, with its 95% interval"),
    _Panel("minus_log_p", "mean -log p of the trainer, nats/token"),
    _Panel("length", "scored tokens per rollout"),
    _Panel("reward", "mean reward"),
    _Panel("zero_advantage", "share of rollouts with zero advantage", ".1%", share=True),
)
# What the onset calls the columns of the breakdown.
_MOVED = {
    "k3": "k3",
    "-log p": "minus_log_p",
    "length": "length",
    "reward": "reward",
    "share of zero advantages": "zero_advantage",
}


def charts(report: Report) -> list[Chart]:
    """Return the timeline where the dump has several steps."""
    rows = report.breakdowns.get("step", [])
    if len(rows) < 2:
        return []
    kept = [rows[place] for place in thinned(len(rows))]
    steps = [_step(row) for row in kept]
    panels = [panel for panel in _PANELS if any(values([row.get(panel.key) for row in kept]))]
    left = _gradient(report, kept)
    frame = Frame()
    count = len(panels) + bool(left)
    for place, panel in enumerate(panels):
        _draw(frame, panel, place, count, steps, [row.get(panel.key) for row in kept])
    if left:
        _draw_gradient(frame, len(panels), count, steps, left)
    marks = _onset(frame, report, [panel.key for panel in panels], steps)
    every = "" if len(kept) == len(rows) else f" {len(kept):,} of {len(rows):,} steps are drawn, evenly spread."
    return [
        Chart(
            "timeline",
            "Over the steps",
            "Each panel is over the scored tokens or the rollouts of a step, trainer over inference." + every,
            frame.data,
            frame.finish(
                xaxis={
                    "title": {"text": "step"},
                    "anchor": f"y{_index(count - 1)}",
                    "showspikes": True,
                    "spikethickness": 1,
                },
                hovermode="x unified",
                # Below, beside the one panel that it is about.
                legend={"y": -52 / (_PANEL * count), "yanchor": "top"},
                margin={"t": 24},
            ),
            height=_PANEL * count + 90,
            defines=("k3", "onset", "gradient_left"),
            notes=marks,
            width=7,
        )
    ]


def _step(row: Figures) -> float | str:
    found = row.get("value")
    return found if isinstance(found, int | float) else words(found, 20)


def _index(place: int) -> str:
    return "" if place == 0 else str(place + 1)


def _axis(frame: Frame, place: int, count: int, title: str, **more: object) -> str:
    """Lay out the panel at a place from the top; return the name of its axis."""
    size = (1 - _GAP * (count - 1)) / count
    top = 1 - place * (size + _GAP)
    name = f"y{_index(place)}"
    frame.layout[f"yaxis{_index(place)}"] = {"domain": [max(0.0, top - size), top], "nticks": 4, **more}
    place_of_title = {"xref": "paper", "yref": "paper", "x": 0, "y": top, "xanchor": "left", "yanchor": "bottom"}
    frame.say(title, size=11.5, color="@soft", **place_of_title)
    return name


def _draw(frame: Frame, panel: _Panel, place: int, count: int, steps: Sequence[object], nodes: Sequence[Node]) -> None:
    axis = _axis(frame, place, count, panel.title, **({"tickformat": ".0%"} if panel.share else {}), rangemode="tozero")
    common = {"x": list(steps), "yaxis": axis, "showlegend": False}
    frame.add(
        **common,
        **_interval(panel, nodes),
        type="scatter",
        mode="lines" if len(steps) > _MOST_MARKERS else "lines+markers",
        y=values(nodes),
        name=panel.title,
        line={"color": "@c0", "width": 2},
        marker={"size": 6},
        hovertemplate=f"%{{y:{panel.form}}}",
    )


def _interval(panel: _Panel, nodes: Sequence[Node]) -> Json:
    """Bars from the low to the high end of the 95% intervals of k3."""
    if panel.key != "k3":
        return {}
    sizes = [
        (None, None) if v is None or low is None or high is None else (high - v, v - low)
        for v, low, high in zip(values(nodes), *ends(nodes), strict=True)
    ]
    up, down = [size[0] for size in sizes], [size[1] for size in sizes]
    style = {"color": "@c0", "thickness": 1, "width": 0 if len(nodes) > _MOST_MARKERS else 3}
    return {"error_y": {"type": "data", "symmetric": False, "array": up, "arrayminus": down, **style}}


def _gradient(report: Report, rows: Sequence[Figures]) -> list[tuple[str, list[Node]]]:
    """Gradient left at A<0, or at all, of the first recipes and those the user named."""
    own = own_specs(report)
    chosen = [recipe for recipe in report.recipes if recipe.spec in own] or [
        recipe for recipe in report.recipes if recipe.name != "none"
    ]
    found = []
    for recipe in chosen[:_MOST_RECIPES]:
        nodes: list[Node] = []
        for row in rows:
            left = [entry for entry in entries(row.get("recipes")) if entry.get("spec") == recipe.spec]
            nodes.append(at(left[0], "gradient_left", "all") if left else None)
        if any(value is not None for value in values(nodes)):
            found.append((words(label(recipe)), nodes))
    return found


def _draw_gradient(
    frame: Frame, place: int, count: int, steps: Sequence[object], left: Sequence[tuple[str, list[Node]]]
) -> None:
    numbers = [value for _, nodes in left for value in values(nodes) if value is not None and value > 0]
    wide = bool(numbers) and max(numbers) > 20 * max(1e-9, min(numbers)) and max(numbers) > 5
    scale = {"type": "log", "exponentformat": "power"} if wide else {"rangemode": "tozero"}
    axis = _axis(frame, place, count, f"gradient left, all signs{', log scale' if wide else ''}", **scale)
    for index, (name, nodes) in enumerate(left):
        frame.add(
            type="scatter",
            mode="lines" if len(steps) > _MOST_MARKERS else "lines+markers",
            x=list(steps),
            yaxis=axis,
            y=values(nodes),
            name=name,
            line={"color": COLORS[index + 1], "width": 2, "dash": DASHES[index]},
            marker={"size": 6},
            hovertemplate="%{y:.3~g}",
        )


def _onset(frame: Frame, report: Report, keys: Sequence[str], steps: Sequence[object]) -> tuple[str, ...]:
    """Mark the step at which a panel's figure left its baseline; say in words what moved, in order."""
    moved = entries(at(report.parts, "onset", "moved"))
    for move in moved:
        key, step = _MOVED.get(str(move.get("what")), ""), move.get("step")
        if key not in keys or step not in steps:
            continue
        domain = frame.layout[f"yaxis{_index(keys.index(key))}"]["domain"]
        frame.vertical(step, "@bad", y=tuple(domain), width=1.5)
        corner = {"x": step, "xref": "x", "y": domain[1], "yref": "paper", "yanchor": "top", "xanchor": "left"}
        frame.say("moved", size=10.5, color="@bad", xshift=3, **corner)
    if not moved:
        return ()
    said = ", ".join(f"{plain(move.get('what'), 120)} at step {plain(move.get('step'), 20)}" for move in moved)
    return (f"What moved first, in order: {said}. A dotted line marks it.",)
