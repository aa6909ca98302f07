"""What is in a dump, before any correction is replayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iscope.model.coverage import Coverage
from iscope.model.finding import Finding, Verdict

SCHEMA_NAME = "iscope.inspection"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Inspection:
    """What is in a dump, before any correction is replayed.

    Attributes:
        verdict: the first line.
        layout: how its rows are laid out.
        files: path, bytes, rows and side of each file.
        columns: name, source, type and side of each recognised column.
        ignored: columns that were not recognised, by side.
        coverage: what was read.
        shape: lengths, steps, groups and versions.
        assumptions: what had to be assumed, one sentence each.
        findings: what it shows, errors first.
    """

    verdict: Verdict
    layout: str
    files: list[dict[str, Any]]
    columns: list[dict[str, str]]
    ignored: dict[str, list[str]]
    coverage: Coverage
    shape: dict[str, Any]
    assumptions: list[str]
    findings: list[Finding]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, schema ``iscope.inspection`` version 1."""
        return {
            "schema": {"name": SCHEMA_NAME, "version": SCHEMA_VERSION},
            "verdict": self.verdict.to_dict(),
            "layout": self.layout,
            "files": self.files,
            "columns": self.columns,
            "ignored": self.ignored,
            "coverage": self.coverage.to_dict(),
            "shape": self.shape,
            "assumptions": self.assumptions,
            "findings": [finding.to_dict() for finding in self.findings],
        }
