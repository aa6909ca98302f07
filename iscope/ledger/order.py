"""The canonical order of rollouts: by what was measured of them, then by what the dump says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import polars as pl

from iscope.ledger.plan import BATCH, ROLLOUT_COLUMNS
from iscope.recipes.model import Pair

Array = np.ndarray[Any, np.dtype[Any]]
Places = np.ndarray[Any, np.dtype[np.int64]]

# Of what was measured, so that sums over rows do not depend on how the dump was split or ordered.
MEASURED = (
    *(f"{Pair.TRAINER_INFERENCE}:{name}" for name in ("log_ratio_sum", "k3_sum", "excess_sq", "abs_sum")),
    *("trainer_logprob_sum", "scored", "tokens"),
)
KEYS = (*MEASURED, *ROLLOUT_COLUMNS, "rollout_id", BATCH)


class Table(Protocol):
    """Columns by name, read one at a time."""

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""

    def __getitem__(self, name: str, /) -> pl.Series:
        """Return a column [N]."""


def canonical_order(rows: Table) -> Places:
    """Return where the rows of a ledger stand in their canonical order."""
    names = set(rows.columns)
    return order_by(rows, [key for key in KEYS if key in names])


def order_by(rows: Table, keys: Sequence[str]) -> Places:
    """Return where rows stand in rising order of several columns, nulls last.

    Args:
        rows: the rows.
        keys: the columns; the first holds numbers, of which few should be equal: only rows that share one are compared
            any further, a column at a time.
    """
    first = rows[keys[0]].to_numpy()
    order: Places = np.argsort(first, kind="stable")
    first = first[order]
    with_last = (first[1:] == first[:-1]) | (np.isnan(first[1:]) & np.isnan(first[:-1]))
    tied, run = _tied(np.arange(first.size), with_last)
    for key in keys[1:]:
        if not tied.size:
            break
        rank = _ranks(rows[key].gather(order[tied]))
        within = np.lexsort((rank, run))
        order[tied] = order[tied][within]
        rank = rank[within]
        tied, run = _tied(tied, (run[1:] == run[:-1]) & (rank[1:] == rank[:-1]))
    return order


def _tied(places: Places, with_last: Array) -> tuple[Places, Places]:
    """Those of some places whose rows are equal to a neighbour's, and the number of the equal ones that each is of.

    Args:
        places: the places.
        with_last: bool, whether the rows at each place but the first are equal to those at the place before.
    """
    if not places.size:
        return places, places
    tied = np.append(with_last, False) | np.append(False, with_last)
    run = np.cumsum(np.append(True, ~with_last))
    return places[tied], run[tied]


def _ranks(values: pl.Series) -> Places:
    """Numbers that are ordered as some values are, equal for equal ones, nulls last."""
    if values.null_count() == len(values):
        return np.zeros(len(values), dtype=np.int64)
    return values.rank("dense").cast(pl.Int64).fill_null(len(values) + 1).to_numpy()
