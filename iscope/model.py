"""The report as data: figures and their parts, plain dataclasses with a schema version."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from iscope.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    import polars as pl

SCHEMA_NAME = "iscope.report"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Figure:
    """One number of the report, or the reason why there is none.

    Attributes:
        value: the number; None when it is absent.
        low: lower end of its 95% interval, where it has one.
        high: upper end of its 95% interval, where it has one.
        why: why the value is absent.
        log10: log10 of a positive value that float64 cannot hold (it over- or underflowed).
        bin: for a quantile read from a histogram, the edges of the bin that holds it.
    """

    value: float | int | None
    low: float | None = None
    high: float | None = None
    why: str | None = None
    log10: float | None = None
    bin: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        """Refuse what JSON cannot hold and what a reader could not interpret."""
        for number in (self.value, self.low, self.high, self.log10, *(self.bin or ())):
            if number is not None and not math.isfinite(number):
                raise ValueError(f"a figure must be finite or absent, not {self}")
        if self.value is None and self.why is None:
            raise ValueError("an absent figure says why")

    @classmethod
    def absent(cls, why: str) -> Figure:
        """Return a figure without a value, and the reason."""
        return cls(None, why=why)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: ``value`` always, the rest where it is set."""
        parts = {"low": self.low, "high": self.high, "why": self.why, "log10": self.log10}
        bins = None if self.bin is None else list(self.bin)
        return {"value": self.value} | {k: v for k, v in (parts | {"bin": bins}).items() if v is not None}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Figure:
        """Read what ``to_dict`` wrote."""
        return cls(**(data | {"bin": tuple(data["bin"])} if "bin" in data else data))


_FIGURE_KEYS = {part.name for part in fields(Figure)}

# A figure, a count, a number, a word, or a named or listed group of them.
Node = Figure | int | float | str | None | dict[str, "Node"] | list["Node"]
Figures = dict[str, Node]


def nodes_to_json(node: Node) -> Any:
    """Return a tree of figures as JSON values."""
    if isinstance(node, Figure):
        return node.to_dict()
    if isinstance(node, dict):
        return {name: nodes_to_json(child) for name, child in node.items()}
    if isinstance(node, list):
        return [nodes_to_json(child) for child in node]
    return node


def nodes_from_json(data: Any) -> Node:
    """Read what ``nodes_to_json`` wrote."""
    if isinstance(data, dict):
        if "value" in data and data.keys() <= _FIGURE_KEYS:
            return Figure.from_dict(data)
        return {name: nodes_from_json(child) for name, child in data.items()}
    if isinstance(data, list):
        return [nodes_from_json(child) for child in data]
    return data  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Coverage:
    """What was read and what became of it.

    Attributes:
        files: files read.
        rollouts_read: rollouts met, on any side.
        rollouts_analyzed: rollouts with at least one scored token.
        rollouts_empty: rollouts without one.
        rollouts_excluded: rollouts left out, by reason.
        tokens_read: tokens of the rollouts that were not left out.
        tokens_loss: those whose loss mask is true.
        tokens_scored: loss tokens on which every policy's logprob is usable.
        tokens_unscored: the other loss tokens, by kind of unusable value.
        tokens_unscored_by_side: the same, by the policy that held the unusable value.
        notes: counts worth saying (conflicting shared columns, positives that are rounding).
    """

    files: int
    rollouts_read: int
    rollouts_analyzed: int
    rollouts_empty: int
    rollouts_excluded: dict[str, int]
    tokens_read: int
    tokens_loss: int
    tokens_scored: int
    tokens_unscored: dict[str, int]
    tokens_unscored_by_side: dict[str, dict[str, int]]
    notes: dict[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "files": self.files,
            "rollouts": {
                "read": self.rollouts_read,
                "analyzed": self.rollouts_analyzed,
                "empty": self.rollouts_empty,
                "excluded": self.rollouts_excluded,
            },
            "tokens": {
                "read": self.tokens_read,
                "loss": self.tokens_loss,
                "scored": self.tokens_scored,
                "unscored": self.tokens_unscored,
                "unscored_by_side": self.tokens_unscored_by_side,
            },
            "notes": self.notes,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Coverage:
        """Read what ``to_dict`` wrote."""
        rollouts, tokens = data["rollouts"], data["tokens"]
        return cls(
            files=data["files"],
            **{f"rollouts_{name}": value for name, value in rollouts.items()},
            **{f"tokens_{name}": value for name, value in tokens.items()},
            notes=data["notes"],
        )


@dataclass(frozen=True)
class RecipeReport:
    """What one recipe does to the dump.

    Attributes:
        name: the recipe without options.
        spec: its canonical full form.
        options: every option in force, short names, None for no bound.
        level: over what its ratio is taken (none, token, sequence, geometric).
        unit: what its weights are counted in (tokens, rollouts).
        named: True where the user asked for it.
        figures: raw, applied, masked, truncated, modified, kept, ess, ...
        framework: the metrics its framework logs, under its names.
        why: why it could not be replayed on this dump; it then has no figures.
    """

    name: str
    spec: str
    options: dict[str, Any]
    level: str
    unit: str
    named: bool
    figures: Figures
    framework: Figures
    why: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; the figures stand beside the name, not below it."""
        head = {
            "name": self.name,
            "spec": self.spec,
            "options": self.options,
            "level": self.level,
            "unit": self.unit,
            "named": self.named,
        }
        if self.why is not None:
            head["why"] = self.why
        figures: dict[str, Any] = nodes_to_json(self.figures)
        return head | figures | {"framework": nodes_to_json(self.framework)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RecipeReport:
        """Read what ``to_dict`` wrote."""
        head = ("name", "spec", "options", "level", "unit", "named")
        rest = {name: nodes_from_json(value) for name, value in data.items() if name not in (*head, "framework", "why")}
        framework = {name: nodes_from_json(value) for name, value in data["framework"].items()}
        return cls(**{name: data[name] for name in head}, figures=rest, framework=framework, why=data.get("why"))


@dataclass(frozen=True)
class Verdict:
    """The first line of a report: a word, and the sentence that backs it."""

    word: str
    message: str


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
        findings: what the dump shows, one entry per finding.
        provenance: versions, files, options: what may differ between two runs over the same dump.
    """

    verdict: Verdict
    coverage: Coverage
    assumptions: list[str]
    mismatch: Figures
    recipes: list[RecipeReport]
    breakdowns: dict[str, list[Figures]] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, schema ``iscope.report`` version 1."""
        return {
            "schema": {"name": SCHEMA_NAME, "version": SCHEMA_VERSION},
            "provenance": self.provenance,
            "verdict": {"word": self.verdict.word, "message": self.verdict.message},
            "assumptions": self.assumptions,
            "coverage": self.coverage.to_dict(),
            "mismatch": nodes_to_json(self.mismatch),
            "recipes": [recipe.to_dict() for recipe in self.recipes],
            "breakdowns": {by: [nodes_to_json(row) for row in rows] for by, rows in self.breakdowns.items()},
            "findings": self.findings,
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

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Report:
        """Read what ``to_dict`` wrote.

        Raises:
            ValueError: when it is not a report of a schema version this code reads.
        """
        if data.get("schema") != {"name": SCHEMA_NAME, "version": SCHEMA_VERSION}:
            raise ValueError(f"not a report of schema {SCHEMA_NAME} version {SCHEMA_VERSION}")
        tree: Any = nodes_from_json(data["mismatch"])
        return cls(
            verdict=Verdict(**data["verdict"]),
            coverage=Coverage.from_dict(data["coverage"]),
            assumptions=data["assumptions"],
            mismatch=tree,
            recipes=[RecipeReport.from_dict(recipe) for recipe in data["recipes"]],
            breakdowns={by: [_row(row) for row in rows] for by, rows in data["breakdowns"].items()},
            findings=data["findings"],
            provenance=data["provenance"],
        )


def _row(data: dict[str, Any]) -> Figures:
    return {name: nodes_from_json(value) for name, value in data.items()}


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
