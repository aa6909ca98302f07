"""A bar, what was measured against it, and the table of them."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

LINE = "{:<56} {:>11} {:>20} {:>11}  {}"


@dataclass(frozen=True)
class Bar:
    """A ratio or a size, and what it has to be.

    Attributes:
        what: that was measured, over what.
        value: of all runs together.
        runs: the same of single runs.
        limit: what it may be at most, or has to be at least; None where there is no bar and the row is for information.
        form: how a number is written.
        at_least: whether more is better.
    """

    what: str
    value: float
    runs: Sequence[float]
    limit: float | None = None
    form: str = "{:.2f}"
    at_least: bool = False

    @property
    def holds(self) -> bool | None:
        """Whether the value is on the right side; None where there is no bar."""
        if self.limit is None:
            return None
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    @property
    def line(self) -> str:
        """The row of the table: value, range of the runs, bar and verdict."""
        low, high = self.form.format(min(self.runs)), self.form.format(max(self.runs))
        sign = ">=" if self.at_least else "<="
        bar = "" if self.limit is None else f"{sign} {self.form.format(self.limit)}"
        verdict = {None: "", True: "holds", False: "DOES NOT HOLD"}[self.holds]
        return LINE.format(self.what, self.form.format(self.value), f"[{low}, {high}]", bar, verdict).rstrip()


def over(what: str, above: Sequence[float], below: Sequence[float], limit: float | None = None) -> Bar:
    """Return the ratio of the medians of two measurements that were made in turn; the range is of the pairs' ratios."""
    pairs = [one / other for one, other in zip(above, below, strict=True)]
    return Bar(what, statistics.median(above) / statistics.median(below), pairs, limit)


HEAD = LINE.format("what", "measured", "range of runs", "bar", "").rstrip()


def summary(tables: Iterable[Sequence[Bar]]) -> list[str]:
    """Return a line for each bar that several tables hold: in how many of them it held, and the values."""
    rows = sorted((bar for table in tables for bar in table if bar.limit is not None), key=lambda bar: bar.what)
    lines = []
    for what, found in groupby(rows, key=lambda bar: bar.what):
        bars = list(found)
        held = sum(bool(bar.holds) for bar in bars)
        values = ", ".join(bar.form.format(bar.value) for bar in bars)
        lines.append(f"{what}: held in {held} of {len(bars)} tables ({values})")
    return lines


def add_choice(parser: argparse.ArgumentParser, option: str, what: str, known: Iterable[str]) -> None:
    """Add an option that takes some of what is known, as a comma list; all of it is the default."""
    known = list(known)

    def listed(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"no {what} {unknown[0]!r}; there are {', '.join(known)}")
        return names

    parser.add_argument(option, type=listed, default=known, help=f"of {', '.join(known)}, with commas")
