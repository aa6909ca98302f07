"""The charts of the page: one module each, named in a table, in the order of the page."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace

from iscope.model import Report
from iscope.render.html.charts.chart import Chart

__all__ = ["FIRST", "LATER", "Chart", "charts"]

# What the first view shows, and what follows below the table of recipes.
FIRST = ("timeline", "trade_off", "bounds_map", "keep", "lag")
LATER = ("by_p", "position", "ratios")
_COLUMNS = 12


def charts(report: Report, names: tuple[str, ...]) -> list[Chart]:
    """Return the charts of these modules that the report has data for."""
    found: list[Chart] = []
    for name in names:
        make: Callable[[Report], list[Chart]] = importlib.import_module(f"iscope.render.html.charts.{name}").charts
        found += make(report)
    return _filled(found)


def _filled(found: list[Chart]) -> list[Chart]:
    """The charts as wide as it takes to fill each row of the page."""
    rows: list[list[Chart]] = []
    for chart in found:
        if not rows or sum(one.width for one in rows[-1]) + chart.width > _COLUMNS:
            rows.append([])
        rows[-1].append(chart)
    return [
        replace(chart, width=_COLUMNS // len(row)) if sum(one.width for one in row) < _COLUMNS else chart
        for row in rows
        for chart in row
    ]
