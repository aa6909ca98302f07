"""The result of a check: the verdict of every gate, and what it rests on."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from iscope.errors import GateFailure
from iscope.model.figure import Figure
from iscope.model.finding import Verdict

CHECK_NAME = "iscope.check"
CHECK_VERSION = 1
PASS, WARN, FAIL = "PASS", "WARN", "FAIL"


@dataclass(frozen=True)
class GateVerdict:
    """What became of one limit on one figure.

    Attributes:
        word: ``PASS``, ``WARN`` or ``FAIL``.
        figure: the figure's path, ``mismatch.by_p[0.5-0.9].k3``; ``findings`` where findings are judged.
        form: the key of the limit: ``max``, ``max_ratio``, ``findings``, ...
        rule: the limit in words, ``<= 0.015``.
        unit: of the figure, ``nats per token``; empty where it has none.
        value: the figure, with its interval; absent with the reason.
        limit: the number it is held against; None where there is none.
        compared: what is held against the limit where that is not the figure itself: the ratio to the baseline, the
            rise, the slope, with its interval.
        baseline: the figure in the baseline; None where the limit needs none.
        message: what was seen, in a sentence.
        reason: why the gate is there, in its author's words.
        level: ``fail`` or ``warn``: what a broken limit amounts to.
        origin: ``default``, or where the gate was written.
    """

    word: str
    figure: str
    form: str
    rule: str
    unit: str
    value: Figure
    limit: float | None
    compared: Figure | None
    baseline: Figure | None
    message: str
    reason: str = ""
    level: str = "fail"
    origin: str = "default"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "word": self.word,
            "figure": self.figure,
            "form": self.form,
            "rule": self.rule,
            "unit": self.unit,
            "value": self.value.to_dict(),
            "limit": self.limit,
            "compared": None if self.compared is None else self.compared.to_dict(),
            "baseline": None if self.baseline is None else self.baseline.to_dict(),
            "message": self.message,
            "reason": self.reason,
            "level": self.level,
            "origin": self.origin,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> GateVerdict:
        """Read what ``to_dict`` wrote."""
        figures = {name: data[name] and Figure.from_dict(data[name]) for name in ("value", "compared", "baseline")}
        return cls(**(data | figures))


@dataclass(frozen=True)
class CheckResult:
    """The verdict of every gate on a dump; true where none failed.

    Attributes:
        gates: the verdicts, failures first, then warnings.
        dump: the verdict of the report on the dump itself.
        counts: what was read: ``rollouts``, ``tokens`` scored, ``groups`` (None where the dump has none).
        notes: what was not judged and why, and what could not be told, one sentence each.
        changes: how figures differ from the baseline that this run replaces.
        provenance: versions, files: what may differ between two runs over the same dump.
    """

    gates: list[GateVerdict]
    dump: Verdict
    counts: dict[str, int | None]
    notes: list[str] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)

    @property
    def failures(self) -> list[GateVerdict]:
        """The verdicts that fail the check."""
        return [gate for gate in self.gates if gate.word == FAIL]

    @property
    def warnings(self) -> list[GateVerdict]:
        """The verdicts that warn."""
        return [gate for gate in self.gates if gate.word == WARN]

    @property
    def passed(self) -> bool:
        """Whether no gate failed; a check without gates has not passed."""
        return bool(self.gates) and not self.failures

    @property
    def word(self) -> str:
        """``FAIL`` where a gate failed, else ``WARN`` where one warns, else ``PASS``."""
        if not self.passed:
            return FAIL
        return WARN if self.warnings else PASS

    @property
    def message(self) -> str:
        """How many gates failed, warn and passed."""
        failed, warned = len(self.failures), len(self.warnings)
        passed = len(self.gates) - failed - warned
        return f"{failed} failed, {warned} warned, {passed} passed of {len(self.gates)} gates"

    def __bool__(self) -> bool:
        """Return whether the check passed."""
        return self.passed

    def __repr__(self) -> str:
        """Return the verdict: a prompt shows no whole result."""
        return f"<CheckResult {self.word}: {self.message}>"

    def __str__(self) -> str:
        """Return the page that ``iscope check`` prints, 100 columns wide."""
        # By name: rendering lies above the model.
        render: Callable[[CheckResult], str] = importlib.import_module("iscope.render.check.terminal").render
        return render(self)

    def explain(self) -> str:
        """Return the failures, one line each."""
        return "\n".join([f"{self.message}:", *(f"- {gate.message}" for gate in self.failures)])

    def raise_for_failures(self) -> None:
        """Do nothing where the check passed.

        Raises:
            GateFailure: an ``AssertionError`` that says which gates failed, and why.
        """
        if not self.passed:
            raise GateFailure(self.explain())

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, schema ``iscope.check`` version 1."""
        return {
            "schema": {"name": CHECK_NAME, "version": CHECK_VERSION},
            "provenance": self.provenance,
            "verdict": {"word": self.word, "message": self.message},
            "passed": self.passed,
            "dump": self.dump.to_dict(),
            "counts": self.counts,
            "gates": [gate.to_dict() for gate in self.gates],
            "notes": self.notes,
            "changes": self.changes,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CheckResult:
        """Read what ``to_dict`` wrote.

        Raises:
            ValueError: when it is no result of a schema version this code reads.
        """
        if data.get("schema") != {"name": CHECK_NAME, "version": CHECK_VERSION}:
            raise ValueError(f"not a result of schema {CHECK_NAME} version {CHECK_VERSION}")
        return cls(
            gates=[GateVerdict.from_dict(gate) for gate in data["gates"]],
            dump=Verdict(**data["dump"]),
            counts=data["counts"],
            notes=data["notes"],
            changes=data["changes"],
            provenance=data["provenance"],
        )
