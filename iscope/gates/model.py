"""A gate: a limit on figures of a report, and what it amounts to when it is broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Literal

Level = Literal["fail", "warn"]
OnNoise = Literal["fail", "warn", "pass"]
Beyond = Literal["above", "below", "either"]
SEVERITIES = ("error", "warning", "information")


@dataclass(frozen=True)
class Form:
    """A kind of limit.

    Attributes:
        key: its name in a gate.
        of: what is held against the limit: the ``value``, its ``ratio`` to the baseline, its ``rise`` over it, its
            ``interval`` against the baseline's, the ``slope`` over a breakdown's rows, or the ``growth`` along them.
        upper: whether the limit is one from above.
        words: the limit in words, with ``{}`` for the number.
    """

    key: str
    of: Literal["value", "ratio", "rise", "interval", "slope", "growth"]
    upper: bool
    words: str

    @property
    def needs_baseline(self) -> bool:
        """Whether it cannot be judged without a baseline."""
        return self.of in ("ratio", "rise", "interval")

    @property
    def is_trend(self) -> bool:
        """Whether it is over all rows of a breakdown together."""
        return self.of in ("slope", "growth")


FORMS: dict[str, Form] = {
    form.key: form
    for form in (
        Form("max", "value", True, "<= {}"),
        Form("min", "value", False, ">= {}"),
        Form("max_ratio", "ratio", True, "<= {} x baseline"),
        Form("min_ratio", "ratio", False, ">= {} x baseline"),
        Form("max_rise", "rise", True, "<= baseline + {}"),
        Form("max_fall", "rise", False, ">= baseline - {}"),
        Form("beyond_interval", "interval", True, "not {} baseline's"),
        Form("max_slope", "slope", True, "slope <= {}"),
        Form("min_slope", "slope", False, "slope >= {}"),
        Form("max_growth", "growth", True, "last/first <= {}"),
        Form("min_growth", "growth", False, "last/first >= {}"),
    )
}


@dataclass(frozen=True)
class Gate:
    """One or several limits on one figure, or a limit on findings.

    Attributes:
        figure: the path of a figure in the JSON report, ``mismatch.by_p[*].k3``; empty for a gate on findings.
        findings: a severity, which stands for itself and what is worse, or codes: such findings break the gate.
        ignore: codes of findings that do not.
        max: ceiling of the figure.
        min: floor of the figure.
        max_ratio: ceiling of the figure over that of the baseline.
        min_ratio: floor of it.
        max_rise: how far the figure may lie above that of the baseline, in its unit.
        max_fall: how far below.
        beyond_interval: the figure's interval may not lie wholly ``above``, ``below`` or to ``either`` side of the
            baseline's.
        max_slope: ceiling of the least-squares slope over the rows of a breakdown, in the figure's unit per unit of the
            breakdown's value.
        min_slope: floor of it.
        max_growth: ceiling of the mean of the last ``window`` rows over the mean of the first.
        min_growth: floor of it.
        window: how many rows are the first and the last.
        level: what a broken limit amounts to.
        on_noise: what it amounts to where the limit lies inside the interval of what is held against it.
        reason: why the gate is there.
        origin: ``default``, or where it was written.
    """

    figure: str = ""
    findings: str | tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    max: float | None = None
    min: float | None = None
    max_ratio: float | None = None
    min_ratio: float | None = None
    max_rise: float | None = None
    max_fall: float | None = None
    beyond_interval: Beyond | None = None
    max_slope: float | None = None
    min_slope: float | None = None
    max_growth: float | None = None
    min_growth: float | None = None
    window: int = 3
    level: Level = "fail"
    on_noise: OnNoise = "warn"
    reason: str = ""
    origin: str = "python"

    def limits(self) -> Iterator[tuple[Form, float | Beyond]]:
        """Yield the limits that are set, each with its number."""
        for key, form in FORMS.items():
            bound = getattr(self, key)
            if bound is not None:
                yield form, bound


KEYS = tuple(part.name for part in fields(Gate) if part.name != "origin")
