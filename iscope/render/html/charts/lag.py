"""What each recipe leaves at each lag."""

from __future__ import annotations

from iscope.model import Figures, Report
from iscope.render.blocks.own import leading
from iscope.render.html.charts.chart import Chart, Frame, share_of_base, whole_percent, words
from iscope.render.nodes import entries
from iscope.render.terminal.labels import label

_MOST = 24
_DARK = 0.6  # from this share on a cell is too dark for the page's ink


def charts(report: Report) -> list[Chart]:
    """Return the map where the dump has several lags."""
    rows = report.breakdowns.get("lag", [])
    replayed = {str(entry.get("spec")) for row in rows for entry in entries(row.get("recipes"))}
    recipes = [recipe for recipe in leading(report, len(report.recipes)) if recipe.spec in replayed][:_MOST]
    shares = [[_share(row, recipe.spec) for row in rows] for recipe in recipes]
    if len(rows) < 2 or not any(share is not None for row in shares for share in row):
        return []
    frame = Frame()
    names = [f"{place}. {words(label(recipe), 34)}" for place, recipe in enumerate(recipes, 1)]
    _draw(frame, names, [f"lag {words(row.get('value'), 12)}" for row in rows], shares)
    return [
        Chart(
            "lag",
            "Which correction survives the lag",
            "Effective batch size in rollouts, (Σg)²/Σg² with g a rollout's gradient, over that of the same loss at "
            "weight 1 with everything kept, among the rollouts of each lag (trainer version - policy version).",
            frame.data,
            frame.finish(
                yaxis={"autorange": "reversed", "tickfont": {"size": 11}, "showgrid": False},
                xaxis={"side": "top", "showgrid": False, "type": "category"},
                margin={"t": 34, "b": 12},
            ),
            height=70 + 30 * len(recipes),
            defines=("effective_batch_size", "lag"),
            width=5,
        )
    ]


def _draw(frame: Frame, names: list[str], lags: list[str], shares: list[list[float | None]]) -> None:
    frame.add(
        type="heatmap",
        x=lags,
        y=names,
        z=shares,
        zmin=0,
        zmax=1,
        colorscale=[[0, "@card"], [1, "@c0"]],
        xgap=2,
        ygap=2,
        showscale=False,
        hoverongaps=False,
        hovertemplate="%{y}<br>%{x}: %{z:.1%} of the base<extra></extra>",
    )
    for name, row in zip(names, shares, strict=True):
        for column, share in zip(lags, row, strict=True):
            color = "@page" if (share or 0) > _DARK else "@ink"
            frame.say(words(whole_percent(share) or "-"), size=11.5, color=color, x=column, y=name)


def _share(row: Figures, spec: str) -> float | None:
    own = [entry for entry in entries(row.get("recipes")) if entry.get("spec") == spec]
    return share_of_base(own[0].get("effective_batch_size")) if own else None
