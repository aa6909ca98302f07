"""Sweeps over two options: what each pair of bounds leaves."""

from __future__ import annotations

from collections.abc import Sequence

from iscope.model import RecipeReport, Report
from iscope.render.html.charts.chart import Chart, Frame, plain, value, words
from iscope.render.nodes import at

_FEWEST = 2  # values of an option that make an axis
_MOST_MAPS = 4
_WRITTEN = 100  # cells with their number in them


def charts(report: Report) -> list[Chart]:
    """Return a map per recipe whose settings differ in two numeric options."""
    by_name: dict[str, list[RecipeReport]] = {}
    for recipe in report.recipes:
        by_name.setdefault(recipe.name, []).append(recipe)
    found: list[Chart] = []
    for name, settings in by_name.items():
        options = _varied(settings)
        if len(options) == 2 and len(settings) > 3:
            found.append(_chart(f"map_{len(found)}", name, settings, options))
    return found[:_MOST_MAPS]


def _varied(settings: Sequence[RecipeReport]) -> list[str]:
    names = settings[0].options
    seen = {name: [setting.options.get(name) for setting in settings] for name in names}
    varied = [name for name, found in seen.items() if len({repr(one) for one in found}) >= _FEWEST]
    numeric = all(
        one is None or (isinstance(one, int | float) and not isinstance(one, bool)) for n in varied for one in seen[n]
    )
    return varied if numeric else []


def _chart(place: str, name: str, settings: Sequence[RecipeReport], options: Sequence[str]) -> Chart:
    (x, xs), (y, ys) = ((option, _axis(settings, option)) for option in options)
    cells = {(_word(s.options.get(x)), _word(s.options.get(y))): s for s in settings}
    shares = [[_share(cells.get((across, up))) for across in xs] for up in ys]
    frame = Frame()
    frame.add(
        type="heatmap",
        x=xs,
        y=ys,
        z=shares,
        zmin=0,
        zmax=1,
        colorscale=[[0, "@card"], [1, "@c0"]],
        xgap=1,
        ygap=1,
        hoverongaps=False,
        customdata=[[_hover(cells.get((across, up))) for across in xs] for up in ys],
        hovertemplate=f"{words(x)} %{{x}}, {words(y)} %{{y}}<br>%{{customdata}}<extra></extra>",
        texttemplate="%{z:.2f}" if len(xs) * len(ys) <= _WRITTEN else "",
        colorbar={"thickness": 10, "outlinewidth": 0},
    )
    return Chart(
        place,
        f"{plain(name)}: {plain(x)} against {plain(y)}",
        "Gradient left at each pair of bounds: policy-term gradient over that of the same loss at weight 1 with "
        "everything kept, all signs.",
        frame.data,
        frame.finish(
            xaxis={"title": {"text": words(x)}, "type": "category", "showgrid": False},
            yaxis={"title": {"text": words(y)}, "type": "category", "showgrid": False},
        ),
        height=360,
        defines=("gradient_left",),
        width=6,
    )


def _axis(settings: Sequence[RecipeReport], option: str) -> list[str]:
    found = {_word(setting.options.get(option)): setting.options.get(option) for setting in settings}
    return sorted(found, key=lambda word: (found[word] is not None, found[word] or 0))


def _word(number: object) -> str:
    return "none" if number is None else f"{number:g}" if isinstance(number, int | float) else words(number, 20)


def _share(setting: RecipeReport | None) -> float | None:
    return None if setting is None else value(at(setting.figures, "gradient_left", "all"))


def _hover(setting: RecipeReport | None) -> str:
    if setting is None:
        return ""
    named = {
        "effective batch size": value(at(setting.figures, "effective_batch_size")),
        "gradient left": value(at(setting.figures, "gradient_left", "all")),
        "product left": value(at(setting.figures, "product_left")),
    }
    return "<br>".join(f"{name} {'-' if found is None else f'{found:.3g}'}" for name, found in named.items())
