"""Groups: which rollouts answer one prompt, over a dump that comes in parts."""

from __future__ import annotations

import polars as pl
import torch
from torch import Tensor


class Groups:
    """Numbers the groups of every batch as they come up; a rollout without a group_id is a group of its own."""

    def __init__(self) -> None:
        """Start without any."""
        self._numbers: dict[tuple[int, object], int] = {}
        self._count = 0

    def numbers(self, columns: pl.DataFrame, places: Tensor) -> Tensor | None:
        """Return the group of each rollout, int64 [N]; None without group_id.

        Args:
            columns: their columns, N rows.
            places: int64 [N], the batch that each belongs to.
        """
        if "group_id" not in columns.columns:
            return None
        keys = zip(places.tolist(), columns["group_id"].to_list(), strict=True)
        return torch.tensor([self._number(place, group) for place, group in keys], dtype=torch.int64)

    def _number(self, place: int, group: object) -> int:
        known = None if group is None else self._numbers.get((place, group))
        if known is not None:
            return known
        number, self._count = self._count, self._count + 1
        if group is not None:
            self._numbers[place, group] = number
        return number
