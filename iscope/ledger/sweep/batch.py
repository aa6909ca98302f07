"""The families of a plan, on a batch, and the sums of batches put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
from torch import Tensor

from iscope.ledger.gradient import can_replay
from iscope.ledger.plan import Plan
from iscope.ledger.split import Split
from iscope.ledger.sweep.intervals import CLASSES, FamilySums, measure_family
from iscope.replay.segments import Array
from iscope.rollouts import RolloutBatch

# The tokens of a batch as a recipe of the plan takes them, by its place.
Splits = Callable[[int], Split]


def measure_families(
    batch: RolloutBatch, plan: Plan, splits: Splits, loss_tokens: Tensor
) -> tuple[FamilySums | None, ...]:
    """Sum every family of a plan over a batch; None where the batch lacks what one looks at.

    The tokens are replayed on the device of the batch and sorted into intervals by NumPy: a copy of a few columns costs
    little beside a sum per interval.
    """
    advantage = None if batch.advantage_per_token else batch.advantage
    signs = sign_classes(None if advantage is None else advantage.cpu().numpy())
    signs = np.full(len(batch), CLASSES - 1) if signs is None else signs
    groups = _groups(batch.columns) if "group_id" in batch.columns else None
    found: list[FamilySums | None] = []
    for family in plan.families:
        split, base = splits(family.recipe), plan.base_of[family.recipe]
        able = can_replay(split.rest, family.tight)
        found.append(measure_family(split, family, base, loss_tokens, signs, groups) if able else None)
    return tuple(found)


def _groups(columns: pl.DataFrame) -> pl.Series:
    """The group of each rollout as text; one without a group is its own."""
    own = pl.format("\0{}", pl.col("rollout_id")) if "rollout_id" in columns.columns else pl.lit(None, pl.String)
    return columns.select(pl.coalesce(pl.col("group_id").cast(pl.String), own).alias("group"))["group"]


def sign_classes(advantage: Array | None) -> Array | None:
    """Class of each rollout by its advantage, int64 [N]: above 0, 0, below 0, or none; None where none has one."""
    if advantage is None:
        return None
    known = [advantage > 0, advantage == 0, advantage < 0]
    return np.asarray(np.select(known, [0, 1, 2], CLASSES - 1))


def added(parts: Sequence[tuple[FamilySums | None, ...]]) -> tuple[FamilySums | None, ...]:
    """Put the sums of batches together, family by family."""
    found: list[FamilySums | None] = []
    for of_family in zip(*parts, strict=True):
        sums = [one for one in of_family if one is not None]
        found.append(sums[0].add(sums[1:]) if sums else None)
    return tuple(found)
