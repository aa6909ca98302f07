"""The report: everything iscope found out about a dump, with a schema version."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from iscope.errors import UsageError, did_you_mean
from iscope.model.coverage import Coverage
from iscope.model.figure import Figure, Figures, Node, nodes_from_json, nodes_to_json, row_from_json
from iscope.model.finding import Finding, Verdict
from iscope.model.recipe_report import RecipeReport
from iscope.model.typed import checked
from iscope.place import shown

if TYPE_CHECKING:
    import polars as pl

SCHEMA_NAME = "iscope.report"
SCHEMA_VERSION = 1
# Parts that only some reports have, each under its own name beside the others.
PARTS = ("onset", "settings", "front", "advice", "staleness", "against", "distributions", "worst", "sampling")


@dataclass(frozen=True)
class Report:
    """Everything iscope found out about a dump.

    Attributes:
        verdict: the first line.
        coverage: what was read.
        assumptions: what had to be assumed, one sentence each.
        mismatch: the figures of the mismatch itself, whatever the recipe.
        recipes: one entry per recipe, in the order asked for.
        breakdowns: rows of figures per value of a column.
        findings: what the dump shows, errors first.
        provenance: versions, files, options: what may differ between two runs over the same dump.
        parts: what only some reports have, by the names of ``PARTS``: what moved first over the steps (``onset``), and
            of a comparison its ``settings``, ``front``, ``advice``, ``staleness``, and what differs from another dump
            (``against``); where there is a scored token, how the log-ratios are spread (``distributions``), and the
            rollouts and tokens that are furthest apart (``worst``); where they are recorded, the settings that rollouts
            were sampled with and their groups (``sampling``).
    """

    verdict: Verdict
    coverage: Coverage
    assumptions: list[str]
    mismatch: Figures
    recipes: list[RecipeReport]
    breakdowns: dict[str, list[Figures]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)
    parts: Figures = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, schema ``iscope.report`` version 1."""
        return {
            "schema": {"name": SCHEMA_NAME, "version": SCHEMA_VERSION},
            "provenance": self.provenance,
            "verdict": self.verdict.to_dict(),
            "assumptions": self.assumptions,
            "coverage": self.coverage.to_dict(),
            "mismatch": nodes_to_json(self.mismatch),
            "recipes": [recipe.to_dict() for recipe in self.recipes],
            "breakdowns": {by: [nodes_to_json(row) for row in rows] for by, rows in self.breakdowns.items()},
            "findings": [finding.to_dict() for finding in self.findings],
            **{name: nodes_to_json(self.parts[name]) for name in PARTS if name in self.parts},
        }

    def table(self, what: str = "recipes") -> pl.DataFrame:
        """Return part of the report as a table, one column per figure: its value, null where it is absent.

        Args:
            what: ``recipes`` (one row each), ``mismatch`` (one row), or the name of a breakdown (one row per value).
                Nested figures are named with dots, ``gradient_left.all``; listed ones are left out.

        Raises:
            UsageError: when the report has no such part.
        """
        import polars as pl

        if what == "recipes":
            heads = ({"name": recipe.name, "spec": recipe.spec, "unit": recipe.unit} for recipe in self.recipes)
            rows = [head | _flat(recipe.figures) for head, recipe in zip(heads, self.recipes, strict=True)]
        elif what == "mismatch":
            rows = [_flat(self.mismatch)]
        elif what in self.breakdowns:
            rows = [_flat(row) for row in self.breakdowns[what]]
        else:
            known = ("recipes", "mismatch", *self.breakdowns)
            raise UsageError(f"the report has no table {what!r}, only {', '.join(known)}.{did_you_mean(what, known)}")
        return pl.DataFrame(rows, infer_schema_length=None)

    def __repr__(self) -> str:
        """Return the verdict: a prompt shows no whole report."""
        return f"<Report {self.verdict.word}: {self.verdict.message}>"

    def __str__(self) -> str:
        """Return the page that ``iscope analyze`` prints, 100 columns wide."""
        render: Callable[[Report], str] = importlib.import_module("iscope.render.terminal").render
        return render(self)

    def _repr_html_(self) -> str:
        """Return the report for a notebook: the verdict, the headline figures, the recipes and the findings."""
        # By name: rendering lies above the model, and only notebooks ask for it.
        render: Callable[[Report], str] = importlib.import_module("iscope.render.html.notebook").render
        return render(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Report:
        """Read what ``to_dict`` wrote.

        Raises:
            ValueError: when it is not a report of a schema version this code reads, or something in it is of another
                type than in a report.
            KeyError, TypeError, AttributeError: when it is not whole.
        """
        if data.get("schema") != {"name": SCHEMA_NAME, "version": SCHEMA_VERSION}:
            raise ValueError(f"not a report of schema {SCHEMA_NAME} version {SCHEMA_VERSION}")
        tree: Any = nodes_from_json(data["mismatch"])
        report = cls(
            verdict=checked(Verdict(**data["verdict"])),
            coverage=checked(Coverage.from_dict(data["coverage"])),
            assumptions=data["assumptions"],
            mismatch=tree,
            recipes=[checked(RecipeReport.from_dict(recipe)) for recipe in data["recipes"]],
            breakdowns={by: [row_from_json(row) for row in rows] for by, rows in data["breakdowns"].items()},
            findings=[checked(Finding.from_dict(finding)) for finding in data["findings"]],
            provenance=data["provenance"],
            parts={name: _part(name, data[name]) for name in PARTS if name in data},
        )
        return checked(report)


def _part(name: str, data: Any) -> Node:
    if not isinstance(data, dict | list):
        raise ValueError(f"{name} must not be {shown(data)}")
    return nodes_from_json(data)


def _flat(node: Figures, prefix: str = "") -> dict[str, Any]:
    """Values of a tree of figures by their dotted names, lists left out."""
    flat: dict[str, Any] = {}
    for name, child in node.items():
        if isinstance(child, Figure):
            flat[prefix + name] = child.value
        elif isinstance(child, dict):
            flat |= _flat(child, f"{prefix}{name}.")
        elif not isinstance(child, list):
            flat[prefix + name] = child
    return flat
