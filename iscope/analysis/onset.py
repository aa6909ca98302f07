"""Onset: which figure left its first level first, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iscope.analysis.breakdown import Breakdown, plain
from iscope.analysis.gaps import Gaps
from iscope.analysis.numbers import Array
from iscope.analysis.parts import Parts
from iscope.analysis.rows import Rows
from iscope.model import Figure, Figures, Node, RecipeReport

FEWEST_STEPS = 10
_BASELINE = 5  # the first fifth
_DEVIATIONS = 4.0
_SHARE = 0.25
_IN_A_ROW = 3
_MOST_RECIPES = 5

# Columns of the breakdown by step, and what they are called.
_COLUMNS = {
    "k3": "k3",
    "minus_log_p": "-log p",
    "length": "length",
    "reward": "reward",
    "zero_advantage": "share of zero advantages",
}


@dataclass(frozen=True)
class Move:
    """A figure that left its baseline for good.

    Attributes:
        what: the figure.
        step: the first of three steps in a row beyond the baseline.
        baseline: its median over the first fifth of the steps.
        value: its value at that step.
        place: how many steps come before.
    """

    what: str
    step: Node
    baseline: float
    value: float
    place: int

    def to_node(self) -> Figures:
        """Return the JSON form."""
        ends: Figures = {"baseline": Figure(self.baseline), "at_onset": Figure(self.value)}
        return {"what": self.what, "step": self.step, **ends}


def onset(
    rows: Rows,
    gaps: Gaps | None,
    cut: Breakdown | None,
    by_step: Sequence[Figures],
    recipes: Sequence[RecipeReport],
) -> Figures | None:
    """Return what moved over the steps of a dump, in the order in which it moved; None below ten steps.

    The baseline is the median over the first fifth of the steps; a figure has moved at the first of three steps in a
    row that all lie on one side of it, further than 4 median absolute deviations of the baseline and than 25% of it.

    Args:
        rows: the rollouts.
        gaps: of the sample's tokens, by step; None where there are none.
        cut: the breakdown by step; None where there is none.
        by_step: its rows.
        recipes: the recipes, for the gradient left at A<0 of those that were named, else of all but ``none``.
    """
    known = [row for row in by_step if row.get("value") is not None]
    if cut is None or cut.parts is None or len(known) < FEWEST_STEPS:
        return None
    steps = [row["value"] for row in known]
    series = {name: _numbers([row.get(key) for row in known]) for key, name in _COLUMNS.items()}
    series |= _token_series(rows, gaps, cut.parts, steps) | _gradient_series(known, recipes)
    moves = [move for name, values in series.items() if (move := _move(name, steps, values)) is not None]
    moves.sort(key=lambda move: move.place)
    listed: list[Node] = [move.to_node() for move in moves]
    still: list[Node] = [name for name in series if name not in {move.what for move in moves}]
    return {"steps": len(steps), "baseline_steps": _baseline(len(steps)), "moved": listed, "unmoved": still}


def _baseline(steps: int) -> int:
    return max(2, steps // _BASELINE)


def _move(what: str, steps: Sequence[Node], values: Array) -> Move | None:
    first = values[: _baseline(values.size)]
    if not np.isfinite(first).all():
        return None
    level = float(np.median(first))
    reach = max(_DEVIATIONS * float(np.median(np.abs(first - level))), _SHARE * abs(level))
    away = np.nan_to_num(values - level, nan=0.0)
    for side in (away > reach, away < -reach):
        run = np.convolve(side[first.size :], np.ones(_IN_A_ROW, dtype=np.int64), "valid")
        side[: first.size] = False
        places = np.flatnonzero(run == _IN_A_ROW)
        if places.size:
            place = first.size + int(places[0])
            return Move(what, steps[place], level, float(values[place]), place)
    return None


def _numbers(nodes: Sequence[Node]) -> Array:
    found = [node.value if isinstance(node, Figure) else node for node in nodes]
    return np.array([float(value) if isinstance(value, int | float) else np.nan for value in found])


def _token_series(rows: Rows, gaps: Gaps | None, parts: Parts, steps: Sequence[Node]) -> dict[str, Array]:
    """The gap, median abs(d) / (1 - q) over the sample's tokens with q < .999, and mean abs(d) where q < .1."""
    found = {} if gaps is None else {"gap": _at_steps([*gaps], [*gaps.values()], steps)}
    part, whole = parts.sum(rows["p0:abs"]), parts.sum(rows["p0:tokens"])
    mean = np.divide(part, whole, out=np.full(part.size, np.nan), where=whole > 0)
    found["abs(d) at q < .1"] = _at_steps(parts.values, mean.tolist(), steps)
    return found


def _at_steps(values: Sequence[Any], numbers: Sequence[float], steps: Sequence[Node]) -> Array:
    """Numbers of the values of a column, at the steps as the breakdown names them; NaN where there is none."""
    by_value = dict(zip(map(plain, values), numbers, strict=True))
    return np.array([by_value.get(step, np.nan) for step in steps], dtype=np.float64)


def _gradient_series(by_step: Sequence[Figures], recipes: Sequence[RecipeReport]) -> dict[str, Array]:
    named = [recipe.spec for recipe in recipes if recipe.named or recipe.like]
    chosen = named or [recipe.spec for recipe in recipes if recipe.name != "none"]
    columns: dict[str, list[Node]] = {spec: [] for spec in chosen[:_MOST_RECIPES]}
    for row in by_step:
        entries = row.get("recipes")
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, dict) and str(entry.get("spec")) in columns:
                left = entry.get("gradient_left")
                columns[str(entry["spec"])].append(left.get("negative") if isinstance(left, dict) else None)
    return {
        f"gradient left at A<0 of {spec}": _numbers(nodes)
        for spec, nodes in columns.items()
        if len(nodes) == len(by_step)
    }
