"""keep(T): what the recipes' bounds on whole rollouts keep by length, and at which lengths they keep nearly all."""

from __future__ import annotations

from rich.text import Text

from iscope.model import Figures, Node, RecipeReport, Report
from iscope.render.nodes import at, figure
from iscope.render.numbers import count
from iscope.render.strings import clean, elide
from iscope.render.terminal.page import wrap
from iscope.render.terminal.table import Cell, Column, Label, cell, table

_HEAD = "KEEP(T)"
_LEGEND = (
    " share of rollouts of T scored tokens within the bounds on exp(S) or exp(G): observed/predicted from the mean and "
    "the noise of d"
)
_NINETY = "90% at: lengths of which the bounds keep 90%; * as observed, since sums of d do not grow like noise here"


def keep(report: Report, width: int, *, verbose: bool) -> list[Text]:
    """Return a row per rule with bounds on whole rollouts, of the recipes the user named or, ``verbose``, of all."""
    rows = [
        (recipe, entry)
        for recipe in report.recipes
        if verbose or recipe.named
        for entry in _entries(at(recipe.figures, "keep_at_length"))
        if _entries(entry.get("lengths"))
    ]
    if not rows:
        return []
    lines = wrap(_HEAD + _LEGEND, width, 2)
    lines[0].stylize("bold", 0, len(_HEAD))
    labels = [_label(recipe, entry) for recipe, entry in rows]
    buckets = [_entries(entry.get("lengths")) for _, entry in rows]
    columns = [
        Column(_heading(buckets[0][place]), [_shares(row[place]) for row in buckets if place < len(row)])
        for place in range(len(buckets[0]))
    ]
    ninety = Column(("90%", "at"), [_ninety(entry.get("keep_90")) for _, entry in rows], _NINETY)
    return lines + table("RULE, bounds; T", labels, [*columns, ninety], width)


def _label(recipe: RecipeReport, entry: Figures) -> Label:
    low, high = (figure(at(entry, "bound", end)) for end in ("low", "high"))
    bound = "..".join("" if found is None or found.value is None else f"{found.value:g}" for found in (low, high))
    statistic = {"sequence": "exp(S)", "geometric": "exp(G)"}.get(str(entry.get("level")), "?")
    name = elide(clean(entry.get("filter", "?")), 40)
    signs = clean(entry.get("signs", "any"))
    where = "" if signs == "any" else f", {signs}"
    return Label(f"{clean(recipe.name)} {name} {statistic} {bound}{where}", ">" if recipe.named else " ")


def _heading(bucket: Figures) -> tuple[str, ...]:
    low, high = (figure(bucket.get(end)) for end in ("low", "high"))
    ends = [f"{found.value:g}" for found in (low, high) if found is not None and found.value is not None]
    return ("-".join(dict.fromkeys(ends)),)


def _shares(bucket: Figures) -> Cell:
    observed, predicted = (cell(bucket.get(name), _whole) for name in ("observed", "predicted"))
    if observed.why or not observed.text:
        return observed
    return Cell(f"{observed.text}/{predicted.text}")


def _whole(fraction: float) -> str:
    """A fraction as a whole percentage; what is not quite 0 or 100 does not look like it."""
    if 0 < fraction < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= fraction < 1 else f"{100 * fraction:.0f}%"


def _ninety(node: Node) -> Cell:
    if not isinstance(node, dict):
        return Cell()
    low, high = (figure(node.get(end)) for end in ("low", "high"))
    mark = "*" if node.get("basis") == "observed" else ""
    if low is None or low.value is None:
        return Cell(f"none{mark}")
    if high is None or high.value is None:
        return Cell(f"{count(low.value)}+{mark}")
    return Cell(f"{count(low.value)}-{count(high.value)}{mark}")


def _entries(node: Node) -> list[Figures]:
    return [entry for entry in node if isinstance(entry, dict)] if isinstance(node, list) else []
