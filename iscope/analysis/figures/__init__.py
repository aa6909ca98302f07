"""The figures, one module per family. A module's ``figures`` function returns what it adds to the report."""

from __future__ import annotations

from importlib import import_module

from iscope.analysis.recipe_rows import RecipeRows
from iscope.analysis.rows import Rows
from iscope.model import Figures

MISMATCH = ("mismatch_kl", "differences", "ratios", "by_p", "lag", "tail", "variance_ratio", "sampler_check")
RECIPE = ("weights", "changes", "weight_ess", "gradient", "split_kl", "keep")


def mismatch_figures(rows: Rows) -> Figures:
    """Every figure of the mismatch itself; they wait for their intervals (``intervals.closed``)."""
    return _collect(MISMATCH, rows)


def recipe_figures(rows: RecipeRows) -> Figures:
    """Every figure of one recipe; they wait for their intervals."""
    return _collect(RECIPE, rows)


def _collect(modules: tuple[str, ...], rows: Rows | RecipeRows) -> Figures:
    collected: Figures = {}
    for module in modules:
        collected |= import_module(f"{__name__}.{module}").figures(rows)
    return collected
