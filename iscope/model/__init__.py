"""The report as data: plain dataclasses, read from JSON and written to it."""

from __future__ import annotations

from iscope.model.coverage import Coverage
from iscope.model.figure import Figure, Figures, Node, nodes_from_json, nodes_to_json
from iscope.model.finding import Finding, Verdict
from iscope.model.inspection import Inspection
from iscope.model.recipe_report import RecipeReport
from iscope.model.report import SCHEMA_NAME, SCHEMA_VERSION, Report

__all__ = [
    "SCHEMA_NAME",
    "SCHEMA_VERSION",
    "Coverage",
    "Figure",
    "Figures",
    "Finding",
    "Inspection",
    "Node",
    "RecipeReport",
    "Report",
    "Verdict",
    "nodes_from_json",
    "nodes_to_json",
]
