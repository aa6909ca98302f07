"""The page of a comparison: the advice and its reasons, the settings, the trade, what lag does."""

from __future__ import annotations

from rich.text import Text

from iscope.model import Figures, Node, RecipeReport, Report
from iscope.render.nodes import at
from iscope.render.numbers import count, number, percent
from iscope.render.strings import clean, prose
from iscope.render.terminal import head
from iscope.render.terminal.against import against
from iscope.render.terminal.findings import findings
from iscope.render.terminal.labels import label
from iscope.render.terminal.page import wrap
from iscope.render.terminal.recipes import setting_columns
from iscope.render.terminal.table import Cell, Column, Label, cell, table

_MOST = 40  # settings that a page shows unasked
_FRONT = (
    "*: on the front, no other setting carries more at no more product left; carries: the smaller of gradient left and "
    "effective rollouts over the base's, at most 1"
)


def comparison(report: Report, width: int, *, verbose: bool) -> list[Text]:
    """Return the page of a comparison."""
    blocks = [
        head.header(report, width),
        head.verdict(report, width),
        head.assumptions(report.assumptions, width, verbose=verbose),
        head.coverage(report, width, verbose=verbose),
        against(report, width, verbose=verbose),
        advice(report, width),
        settings(report, width, verbose=verbose),
        staleness(report, width, verbose=verbose),
        onset(report, width),
        findings(report, width, verbose=verbose),
    ]
    return [line for block in blocks for line in block]


def advice(report: Report, width: int) -> list[Text]:
    """Return the advice, its reasons one line each, and the lines of a configuration."""
    found = report.parts.get("advice")
    if not isinstance(found, dict):
        return []
    lines = wrap(f"ADVICE {prose(found.get('title'))}", width, 2)
    lines[0].stylize("bold")
    for sentence in _list(found.get("sentences")):
        lines += wrap(f"  {prose(sentence)}", width, 2)
    config = _list(found.get("config"))
    for note in _list(found.get("notes")):
        lines += wrap(f"  {prose(note)}{':' if config and note == _list(found.get('notes'))[0] else ''}", width, 2)
    return lines + [line for text in config for line in wrap(f"    {clean(text)}", width, 6)]


def settings(report: Report, width: int, *, verbose: bool) -> list[Text]:
    """Return the table of settings, of many those on the front, the advised one and the first, unless ``verbose``."""
    found = report.parts.get("settings")
    if not isinstance(found, dict) or not report.recipes:
        return _summary(found, width) if isinstance(found, dict) else []
    front = {str(point.get("spec")) for point in _dicts(report.parts.get("front"))}
    advised = at(report.parts, "advice", "spec")
    shown = _shown(report, front, advised, verbose=verbose)
    labels = [Label(label(recipe), _mark(recipe, front, advised)) for recipe in shown]
    columns = setting_columns(shown, verbose=verbose)
    if front:
        columns = [_carried(report, shown), *columns]
    lines = _summary(found, width) + table("SETTING", labels, columns, width) + _reward(found, width)
    if len(shown) < len(report.recipes):
        hidden = len(report.recipes) - len(shown)
        text = f"  {count(hidden)} of {count(len(report.recipes))} settings not shown; --verbose and JSON have all"
        lines += wrap(text, width, 4)
    return lines


def _reward(found: Figures, width: int) -> list[Text]:
    """The off-policy reward, or why it is withheld; nothing where the dump has no rewards."""
    reward = cell(found.get("off_policy_reward"), number, interval=True)
    if reward.why is None and reward.text:
        said = "the trainer's policy would earn, by exp(S) over the rollouts' rewards, self-normalised"
        return wrap(f"REWARD off-policy {reward.text}: {said}", width, 2)
    withheld = reward.why is not None and reward.why.startswith("withheld")
    return wrap(f"WITHHELD off-policy reward: {str(reward.why).partition(': ')[2]}", width, 2) if withheld else []


def staleness(report: Report, width: int, *, verbose: bool) -> list[Text]:
    """Return the table of recipes by lag, and of the mismatch by lag in parts."""
    rows = _dicts(report.parts.get("staleness"))
    if not rows:
        return []
    labels = [Label("(none)" if row.get("value") is None else clean(row.get("value"))) for row in rows]
    legend = "k3 nats per token: engine trainer over inference, lag current over trainer, total current over inference"
    columns = [
        Column(("rollouts",), [cell(row.get("rollouts"), count) for row in rows]),
        *(
            Column((f"k3 {name}",), [cell(at(row, "k3_parts", name), number, interval=True) for row in rows], legend)
            for name in ("engine", "lag", "total")
        ),
    ]
    known = {recipe.spec: label(recipe) for recipe in report.recipes}
    specs = list(dict.fromkeys(str(entry.get("spec")) for row in rows for entry in _dicts(row.get("recipes"))))
    left = "left: gradient left at this lag"
    for spec in specs if verbose else specs[:6]:
        cells = [_of_recipe(row, spec) for row in rows]
        columns.append(Column((known.get(spec, spec)[:18], "left"), cells, left))
    note = "  nothing is said of a lag that is not in the dump"
    return table("BY LAG", labels, columns, width) + wrap(note, width, 4)


def onset(report: Report, width: int) -> list[Text]:
    """Return what moved over the steps, in the order in which it moved."""
    found = report.parts.get("onset")
    if not isinstance(found, dict):
        return []
    moved = _dicts(found.get("moved"))
    steps, first = found.get("steps"), found.get("baseline_steps")
    if not moved:
        text = f"ONSET nothing left its level of the first {first} of {steps} steps for three steps in a row"
    else:
        text = "ONSET in the order of the steps: " + "; ".join(_move(move) for move in moved)
    lines = wrap(text, width, 2)
    lines[0].stylize("bold", 0, len("ONSET"))
    return lines


def _move(move: Figures) -> str:
    ends = [cell(move.get(name), number).text for name in ("baseline", "at_onset")]
    return f"step {clean(move.get('step'))} {prose(move.get('what'))} {ends[0]} -> {ends[1]}"


def _summary(found: Figures, width: int) -> list[Text]:
    tried, met = found.get("tried"), found.get("met")
    said = [f"SETTINGS {count(_int(tried))} compared"]
    if _list(found.get("require")):
        conditions = " and ".join(str(one) for one in _list(found.get("require")))
        said.append(f"{count(_int(met))} meet {prose(conditions)}")
    skipped = found.get("skipped")
    total = sum(_int(value) for value in skipped.values()) if isinstance(skipped, dict) else 0
    said += [f"{count(total)} impossible combinations left out"] if total else []
    said += [f"best {prose(found.get('rank_by'))} first"] if found.get("rank_by") else []
    lines = wrap("; ".join(said), width, 2)
    lines[0].stylize("bold", 0, len("SETTINGS"))
    return lines


def _shown(report: Report, front: set[str], advised: Node, *, verbose: bool) -> list[RecipeReport]:
    if verbose or len(report.recipes) <= _MOST:
        return report.recipes
    wanted = [recipe for recipe in report.recipes if recipe.spec in front or recipe.spec == advised]
    first = [recipe for recipe in report.recipes if recipe.spec not in front and recipe.spec != advised]
    kept = {recipe.spec for recipe in (*wanted[:_MOST], *first)[:_MOST]}
    return [recipe for recipe in report.recipes if recipe.spec in kept or recipe.spec == advised]


def _mark(recipe: RecipeReport, front: set[str], advised: Node) -> str:
    return ">" if recipe.spec == advised else "*" if recipe.spec in front else " "


def _carried(report: Report, shown: list[RecipeReport]) -> Column:
    by_spec = {str(point.get("spec")): point for point in _dicts(report.parts.get("front"))}
    cells = [cell(by_spec.get(recipe.spec, {}).get("carried"), percent) for recipe in shown]
    return Column(("carries",), cells, f">: advised; {_FRONT}")


def _of_recipe(row: Figures, spec: str) -> Cell:
    for entry in _dicts(row.get("recipes")):
        if entry.get("spec") == spec:
            return cell(at(entry, "gradient_left", "all"), number)
    return Cell()


def _list(node: Node) -> list[Node]:
    return node if isinstance(node, list) else []


def _dicts(node: Node) -> list[Figures]:
    return [entry for entry in _list(node) if isinstance(entry, dict)]


def _int(node: Node) -> int:
    return node if isinstance(node, int) else 0
