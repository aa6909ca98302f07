"""Breakdowns: a few figures per value of a rollout column."""

from __future__ import annotations

import numpy as np

from iscope.analysis.figures.differences import abs_max
from iscope.analysis.figures.ratios import pair_moments
from iscope.analysis.numbers import effective_size, figure, share
from iscope.analysis.rows import Rows
from iscope.model import Figure, Figures, Node
from iscope.recipes.model import Pair


def breakdown(rows: Rows, column: str) -> list[Figures]:
    """One row of figures per value of a column, in the order of the values; null values last."""
    parts = rows.frame.partition_by(column, as_dict=True, maintain_order=True)
    values = sorted((key[0] for key in parts), key=lambda value: (value is None, value))
    return [_row(value, Rows(parts[value,], {})) for value in values]


def steps_differ(rows: Rows) -> bool:
    """Whether the rollouts come from more than one step."""
    return "step" in rows and rows.frame["step"].n_unique() > 1


def _row(value: Node, rows: Rows) -> Figures:
    sequence = effective_size(rows.log_ratio("sequence"))
    return {
        "value": value if value is None or isinstance(value, int | str | bool) else str(value),
        "rollouts": rows.rollouts,
        "tokens": rows.tokens,
        "k1": share(-rows.pair_total("log_ratio_sum"), rows.tokens),
        "k3": share(rows.pair_total("k3_sum"), rows.tokens),
        "abs_max": abs_max(rows),
        "ess_token_fraction": share(pair_moments(rows, Pair.TRAINER_INFERENCE).effective_size(), rows.tokens),
        "ess_sequence_fraction": share(sequence, rows.rollouts),
        "minus_log_p": share(-float(rows["trainer_logprob_sum"].sum()), rows.tokens),
        "length": share(rows.tokens, rows.rollouts),
        "reward": _mean(rows, "reward"),
        "zero_advantage": _zero_advantage(rows),
    }


def _mean(rows: Rows, column: str) -> Figure:
    if column not in rows:
        return Figure.absent(f"the dump has no {column} column")
    return figure(float(np.nanmean(rows[column])) if np.isfinite(rows[column]).any() else float("nan"), "all missing")


def _zero_advantage(rows: Rows) -> Figure:
    if "advantage" not in rows:
        return Figure.absent("the dump has no advantage per rollout")
    return share(int((rows["advantage"] == 0).sum()), rows.rollouts)
