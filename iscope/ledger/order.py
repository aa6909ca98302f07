"""The canonical order of rollouts: by what was measured of them, then by what the dump says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from iscope.ledger.plan import BATCH, ROLLOUT_COLUMNS
from iscope.recipes.model import Pair

Places = np.ndarray[Any, np.dtype[np.int64]]

# Of what was measured, so that sums over rows do not depend on how the dump was split or ordered.
MEASURED = (
    *(f"{Pair.TRAINER_INFERENCE}:{name}" for name in ("log_ratio_sum", "k3_sum", "excess_sq", "abs_sum")),
    *("trainer_logprob_sum", "scored", "tokens"),
)
KEYS = (*MEASURED, *ROLLOUT_COLUMNS, "rollout_id", BATCH)

_RUN = "run"


def canonical_order(rows: pl.DataFrame) -> Places:
    """Return where the rows of a ledger stand in their canonical order."""
    return order_by(rows, [key for key in KEYS if key in rows.columns])


def order_by(rows: pl.DataFrame, keys: Sequence[str]) -> Places:
    """Return where rows stand in rising order of several columns, nulls last.

    Args:
        rows: the rows.
        keys: the columns; the first holds numbers, of which few should be equal: only rows that share one are compared
            any further.
    """
    first = rows[keys[0]].to_numpy()
    order: Places = np.argsort(first, kind="stable")
    first = first[order]
    with_last = (first[1:] == first[:-1]) | (np.isnan(first[1:]) & np.isnan(first[:-1]))
    tied = np.flatnonzero(np.append(with_last, False) | np.append(False, with_last))
    if tied.size:
        run = np.cumsum(np.append(True, ~with_last))[tied]
        others = rows.select(keys[1:])[order[tied]].with_columns(pl.Series(_RUN, run))
        within = others.select(pl.arg_sort_by([_RUN, *keys[1:]], nulls_last=True)).to_series().to_numpy()
        order[tied] = order[tied][within]
    return order
