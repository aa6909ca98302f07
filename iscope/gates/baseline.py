"""A baseline: figures of a healthy dump, what defines them, and what of the dump has to be the same again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iscope.errors import UsageError
from iscope.gates.figures import locate
from iscope.gates.model import Gate
from iscope.gates.path import read_path
from iscope.gates.units import unit_of
from iscope.model import SCHEMA_NAME, SCHEMA_VERSION, Figure, Report
from iscope.model.strict_json import loads
from iscope.model.typed import checked

NAME = "iscope.baseline"
VERSION = 1
LARGEST = 2**24
# What of a plan changes what a figure means.
_ARITHMETIC = ("precision", "unscored", "batch")
_REMEDY = "write one with iscope check DUMP --write-baseline FILE"


@dataclass(frozen=True)
class Baseline:
    """Figures to hold later dumps against.

    Attributes:
        figures: by their path; all have a value.
        options: of each recipe that a figure is of, by spec: every option in force.
        arithmetic: ``precision``, ``unscored`` and ``batch`` of the report.
        sampling: the recorded sampling settings and groups, as the report's part ``sampling`` has them.
        prompts: number and digest of the prompts; None where the dump has no column of prompts.
        minus_log_q: the sampler's mean -log q over scored tokens, nats per token.
        counts: what it was measured on: ``rollouts`` and ``tokens``.
        provenance: versions and files, for the record.
        name: of the file, for errors.
    """

    figures: dict[str, Figure]
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    arithmetic: dict[str, Any] = field(default_factory=dict)
    sampling: dict[str, Any] = field(default_factory=dict)
    prompts: dict[str, Any] | None = None
    minus_log_q: Figure = field(default_factory=lambda: Figure.absent("it was not measured"))
    counts: dict[str, int] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    name: str = "the baseline"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, schema ``iscope.baseline`` version 1."""
        figures = {path: figure.to_dict() | {"unit": unit_of(path)} for path, figure in sorted(self.figures.items())}
        return {
            "schema": {"name": NAME, "version": VERSION},
            "provenance": self.provenance,
            "definition": {
                "report": {"name": SCHEMA_NAME, "version": SCHEMA_VERSION},
                "arithmetic": self.arithmetic,
                "recipes": self.options,
            },
            "dump": {
                "counts": self.counts,
                "sampling": self.sampling,
                "prompts": self.prompts,
                "minus_log_q": self.minus_log_q.to_dict(),
            },
            "figures": figures,
        }

    def to_json(self) -> str:
        """Return the file's text."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=True, allow_nan=False) + "\n"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], name: str) -> Baseline:
        """Read what ``to_dict`` wrote.

        Raises:
            UsageError: when figures in it are of another schema of report, or have no such path.
            KeyError, TypeError, ValueError: when it is not whole.
        """
        definition, dump = data["definition"], data["dump"]
        if definition["report"] != {"name": SCHEMA_NAME, "version": SCHEMA_VERSION}:
            raise UsageError(
                f"{name}: its figures are of another definition, {definition['report'].get('name')} version "
                f"{definition['report'].get('version')}, where this iscope has {SCHEMA_NAME} version {SCHEMA_VERSION}; "
                f"{_REMEDY}."
            )
        figures = {
            path: Figure.from_dict({key: value for key, value in entry.items() if key != "unit"})
            for path, entry in data["figures"].items()
        }
        for path in figures:
            _check_path(path, name)
        baseline = cls(
            figures=figures,
            options={spec: dict(options) for spec, options in definition["recipes"].items()},
            arithmetic=dict(definition["arithmetic"]),
            sampling=dict(dump["sampling"]) | _counted("groups", dump["sampling"].get("groups")),
            prompts=_counted("prompts", dump["prompts"]).get("prompts"),
            minus_log_q=Figure.from_dict(dump["minus_log_q"]),
            counts={key: int(value) for key, value in dump["counts"].items()},
            provenance=dict(data.get("provenance", {})),
            name=name,
        )
        return checked(baseline)


def baseline_of(report: Report, gates: Iterable[Gate], prompts: dict[str, Any] | None = None) -> Baseline:
    """Return the baseline that a report is: of the figures that gates look at, those that it has.

    Args:
        report: of a healthy dump.
        gates: those that are in force, and those that may be.
        prompts: number and digest of the dump's prompts, where they are known.
    """
    data = report.to_dict()
    paths = dict.fromkeys(gate.figure for gate in gates if gate.figure)
    located = [one for text in paths for one in locate(data, read_path(text))]
    figures = {one.path: one.figure for one in located if one.figure.value is not None}
    named = {spec for path in figures for spec in read_path(path).recipes}
    return Baseline(
        figures=figures,
        options={entry["spec"]: entry["options"] for entry in data["recipes"] if entry["spec"] in named},
        arithmetic=arithmetic(report),
        sampling=data.get("sampling", {}),
        prompts=prompts,
        minus_log_q=minus_log_q(report),
        counts={"rollouts": report.coverage.rollouts_analyzed, "tokens": report.coverage.tokens_scored},
        provenance={"iscope": report.provenance.get("iscope", "")},
    )


def read_baseline(path: str | os.PathLike[str]) -> Baseline:
    """Return the baseline of a JSON file.

    Raises:
        UsageError: when the file cannot be read, or is no baseline.
    """
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{name}: cannot read the baseline: {error.strerror or error}; {_REMEDY}.") from error
    if len(content) > LARGEST:
        raise UsageError(f"{name}: it is larger than {LARGEST // 2**20} MiB, and no baseline; {_REMEDY}.")
    try:
        data = loads(content)
    except ValueError as error:
        raise UsageError(f"{name}: this is no baseline: {error}; {_REMEDY}.") from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != {"name": NAME, "version": VERSION}:
        what = f"its schema is {schema.get('name')} version {schema.get('version')}" if isinstance(schema, dict) else ""
        raise UsageError(f"{name}: this is no baseline that this iscope reads{what and f' ({what})'}; {_REMEDY}.")
    try:
        return Baseline.from_dict(data, name)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{name}: the baseline is not whole ({type(error).__name__}: {error}); {_REMEDY}.") from error


def _check_path(path: str, name: str) -> None:
    try:
        read_path(path)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from error


def _counted(name: str, found: Any) -> dict[str, Any]:
    """Number and digest of prompts or groups under their name; nothing where they are not known."""
    if found is None:
        return {}
    if not isinstance(found["count"], int) or not isinstance(found["digest"], str):
        raise ValueError(f"{name} are a count and a digest")
    return {name: dict(found)}


def arithmetic(report: Report) -> dict[str, Any]:
    """Return what of a report's plan changes what a figure means."""
    plan = report.provenance.get("plan", {})
    return {name: plan[name] for name in _ARITHMETIC if name in plan}


def minus_log_q(report: Report) -> Figure:
    """Return the sampler's mean -log q, nats per token."""
    found = report.mismatch.get("minus_log_q")
    return found if isinstance(found, Figure) else Figure.absent("the report does not have it")


def changes(before: Baseline, after: Baseline) -> list[dict[str, Any]]:
    """Return what an update changes: path, figure before and after, each None where there was or is none."""
    found: list[dict[str, Any]] = []
    for path in dict.fromkeys((*before.figures, *after.figures)):
        old, new = before.figures.get(path), after.figures.get(path)
        if old != new:
            ends = {"before": old and old.to_dict(), "after": new and new.to_dict()}
            found.append({"figure": path, **ends})
    return found


def recipe_specs(gates: Sequence[Gate]) -> list[str]:
    """Return the recipes that gates name, in their order."""
    return list(dict.fromkeys(spec for gate in gates if gate.figure for spec in read_path(gate.figure).recipes))
