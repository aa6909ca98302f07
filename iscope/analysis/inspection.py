"""What ``iscope inspect`` tells of a dump beside its findings: lengths, steps, groups, versions."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from iscope.ledger.ledger import Ledger
from iscope.ledger.rows import LedgerRows

_SPREAD = ((0.0, "min"), (0.5, "median"), (1.0, "max"))


def shape_of(ledger: Ledger) -> dict[str, Any]:
    """Describe the rollouts of a ledger.

    Returns:
        ``length`` (loss tokens per rollout) and ``group_size`` (rollouts) as min, median and max; ``steps``,
        ``groups``, ``policy_version``, ``trainer_version`` as count, first and last. What the dump lacks is None.
    """
    rows = ledger.rows
    return {
        "length": _spread(rows["loss_tokens"]),
        "group_size": _spread(rows["group_id"].value_counts()["count"]) if "group_id" in rows.columns else None,
        **{
            name: _values(rows, column)
            for name, column in (
                ("steps", "step"),
                ("groups", "group_id"),
                ("policy_version", "policy_version"),
                ("trainer_version", "trainer_version"),
            )
        },
    }


def _spread(values: pl.Series) -> dict[str, int] | None:
    numbers = np.sort(values.to_numpy())
    if not numbers.size:
        return None
    return {name: int(numbers[round(share * (numbers.size - 1))]) for share, name in _SPREAD}


def _values(rows: LedgerRows, column: str) -> dict[str, Any] | None:
    if column not in rows.columns or rows[column].null_count() == rows.height:
        return None
    values = rows[column].drop_nulls()
    return {"count": values.n_unique(), "first": values.min(), "last": values.max()}
