"""Two dumps side by side: every figure, what differs and how surely, and what changed in words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from iscope.analysis.compare.nodes import figure_at, paths_of
from iscope.analysis.compare.pairing import Paired, pair
from iscope.analysis.compare.words import changes
from iscope.analysis.figures.variance_ratio import variance_columns
from iscope.analysis.intervals.bootstrap import interval
from iscope.analysis.intervals.clusters import MOST_BLOCKS
from iscope.analysis.intervals.statistics import Statistic
from iscope.analysis.numbers import Array
from iscope.analysis.rows import Rows
from iscope.model import Figure, Figures, Report

_Columns = Callable[[Rows], tuple[Array, Array]]

# Figures of the mismatch that are a sum over rollouts over another one: their difference is resampled block by block.
RATIOS: dict[str, _Columns] = {
    "k1": lambda rows: (-rows.pair("log_ratio_sum"), rows.n),
    "k2": lambda rows: (rows.pair("log_ratio_sq") / 2, rows.n),
    "k3": lambda rows: (rows.pair("k3_sum"), rows.n),
    "abs_mean": lambda rows: (rows.pair("abs_sum"), rows.n),
    "token_mult_prob_error": lambda rows: (rows.pair("exp_abs_sum"), rows.n),
    "minus_log_p": lambda rows: (-rows["trainer_logprob_sum"], rows.n),
    "minus_log_q": lambda rows: (-rows["inference_logprob_sum"], rows.n),
    "ratio.token.mean": lambda rows: (rows.pair("weight_sum"), rows.n),
    "variance_ratio": variance_columns,
}
_BATCH: dict[str, str] = {"length": "scored", "reward": "reward"}


@dataclass(frozen=True)
class Side:
    """A dump of the two.

    Attributes:
        report: its report.
        rows: its rollouts.
        ids: hashes of its rollouts' tokens and prompts.
    """

    report: Report
    rows: Rows
    ids: pl.DataFrame


def against(here: Side, there: Side) -> Figures:
    """Return the part ``against`` of the report of a dump, compared with another.

    ``figures`` holds every number of both reports: its dotted ``path``, ``here``, ``there`` and their ``difference``,
    here - there. Of ratios of sums over rollouts the difference is resampled, blocks of both dumps together
    (``interval`` is ``resampled``): pairs and prompts move as one. Of other figures that have an interval on either
    side it is put together from both, as if the dumps were independent (``combined``; Zou & Donner, Statistics in
    Medicine 27:1693, 2008), which is too wide where they are not. Quantiles and extremes have none.
    """
    paired = pair(here.rows, there.rows, (here.ids, there.ids))
    rows = [_mismatch(path, here, there, paired) for path in paths_of(here.report.mismatch)]
    rows += [_batch(name, column, here, there, paired) for name, column in _BATCH.items()]
    rows += _recipes(here.report, there.report)
    found = [row for row in rows if row is not None]
    said = changes(here.report, there.report, found)
    return {
        "pairing": {"kind": paired.kind, "rollouts": paired.rollouts, "why": paired.why},
        "verdict": {**there.report.verdict.to_dict()},
        "changed": [*said],
        "figures": [*found],
    }


def _mismatch(path: str, here: Side, there: Side, paired: Paired) -> Figures | None:
    ends = figure_at(here.report.mismatch, path), figure_at(there.report.mismatch, path)
    if ends[0] is None or ends[1] is None:
        return None
    resampled = None
    if path in RATIOS and ends[0].value is not None and ends[1].value is not None:
        resampled = _resampled(RATIOS[path](here.rows), RATIOS[path](there.rows), paired)
    return _row(f"mismatch.{path}", ends[0], ends[1], resampled)


def _batch(name: str, column: str, here: Side, there: Side, paired: Paired) -> Figures | None:
    """A mean over rollouts of a number of theirs."""
    if column not in here.rows or column not in there.rows:
        return None
    values = [rows[column].astype(np.float64) for rows in (here.rows, there.rows)]
    known = [np.isfinite(one) for one in values]
    if not all(flags.any() for flags in known):
        return None
    columns = [(np.where(flags, one, 0.0), flags.astype(np.float64)) for one, flags in zip(values, known, strict=True)]
    means = [Figure(float(part.sum() / whole.sum())) for part, whole in columns]
    return _row(f"batch.{name}", means[0], means[1], _resampled(columns[0], columns[1], paired))


def _recipes(here: Report, there: Report) -> list[Figures | None]:
    others = {entry.spec: entry for entry in there.recipes}
    rows: list[Figures | None] = []
    for entry in here.recipes:
        other = others.get(entry.spec)
        for path in paths_of(entry.figures) if other is not None else ():
            mine, theirs = figure_at(entry.figures, path), figure_at(other.figures, path) if other else None
            if mine is not None and theirs is not None:
                rows.append(_row(f"recipes.{entry.spec}.{path}", mine, theirs, None))
    return rows


def _row(path: str, here: Figure, there: Figure, resampled: tuple[float, float] | None) -> Figures:
    if here.value is None or there.value is None:
        why = here.why or there.why or "one of them is absent"
        return {"path": path, "here": here, "there": there, "difference": Figure.absent(why), "interval": None}
    value = here.value - there.value
    if not math.isfinite(value):
        return {"path": path, "here": here, "there": there, "difference": Figure.absent("overflows"), "interval": None}
    ends, kind = resampled, "resampled"
    if ends is None:
        ends, kind = _combined(here, there), "combined"
    if ends is None or not all(map(math.isfinite, ends)):
        return {"path": path, "here": here, "there": there, "difference": Figure(value), "interval": None}
    low, high = min(ends[0], value), max(ends[1], value)
    return {"path": path, "here": here, "there": there, "difference": Figure(value, low, high), "interval": kind}


def _combined(here: Figure, there: Figure) -> tuple[float, float] | None:
    """The interval of a difference from those of both, which are taken to be independent."""
    ends = (here.value, here.low, here.high, there.value, there.low, there.high)
    if any(end is None for end in ends):
        return None
    value, low, high, other, below, above = (float(end) for end in ends if end is not None)
    return (
        value - other - math.hypot(value - low, above - other),
        value - other + math.hypot(high - value, other - below),
    )


def _resampled(here: tuple[Array, Array], there: tuple[Array, Array], paired: Paired) -> tuple[float, float] | None:
    """The bootstrap interval of a difference of ratios, blocks of both dumps drawn together."""
    count = min(paired.blocks, MOST_BLOCKS)
    sides = ((here, paired.here), (there, paired.there))
    columns = [np.bincount(block % count, one, minlength=count) for pair, block in sides for one in pair]
    return interval(np.stack(columns, axis=1), Statistic.DIFFERENCE)
