"""What the contract tests run on: every recipe, own ones too, random batches, and draws of options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl
import torch
from hypothesis import strategies as st

from iscope.errors import UsageError
from iscope.recipes import bind, frameworks
from iscope.recipes.model import BoundRecipe, Framework, Option, Recipe
from iscope.rollouts import LOGPROBS, RolloutBatch
from tests.own_cases import TABLES as OWN_TABLES

TABLES = (*frameworks(), *OWN_TABLES)
ROWS = [(table, row) for table in TABLES for row in table.recipes]
IDS = [row.name for _, row in ROWS]

LENGTHS = (4, 0, 1, 5, 3, 5, 0, 2)
ADVANTAGES = (1.5, -1.0, -0.7, 0.0, 2.0, -0.3, 1.0, 0.4)
_PAIRS = ("0.5_2", "0.8_1.25", 2.0, 0.05)


def ragged(
    seed: int = 0, lengths: tuple[int, ...] = LENGTHS, spread: float = 0.3, masked: float = 0.2
) -> dict[str, list[Any]]:
    """Random rollouts as lists: four policies around each other, a mask with holes, advantages of every sign."""
    generator = torch.Generator().manual_seed(seed)
    lists: dict[str, list[Any]] = {name: [] for name in (*LOGPROBS, "loss_mask")}
    for length in lengths:
        trainer = -3 * torch.rand(length, generator=generator, dtype=torch.float64) - 0.8
        noise = spread * torch.randn(3, length, generator=generator, dtype=torch.float64)
        values = (trainer, *(trainer + shift for shift in noise))
        for name, value in zip(LOGPROBS, values, strict=True):
            lists[name].append(value.clamp(max=-1e-3).float().tolist())
        lists["loss_mask"].append((torch.rand(length, generator=generator) >= masked).tolist())
    lists["advantage"] = [ADVANTAGES[row % len(ADVANTAGES)] for row in range(len(lengths))]
    return lists


def batch_of(lists: Mapping[str, list[Any]], rows: list[int] | None = None) -> RolloutBatch:
    """Build a batch of some of the rollouts, in the order of ``rows``; ids, groups and rewards follow the rollout."""
    rows = list(range(len(lists["advantage"]))) if rows is None else rows
    picked = {name: [values[row] for row in rows] for name, values in lists.items()}
    columns = pl.DataFrame(
        {
            "rollout_id": [f"r{row}" for row in rows],
            "group_id": [f"g{row // 2}" for row in rows],
            "reward": [float(row % 2) for row in rows],
        },
        schema={"rollout_id": pl.String, "group_id": pl.String, "reward": pl.Float64},
    )
    sides = [picked.pop(name) for name in ("trainer_logprobs", "inference_logprobs", "loss_mask")]
    return RolloutBatch.from_lists(*sides, columns=columns, **picked)


def exact(batch: RolloutBatch) -> RolloutBatch:
    """The batch in float64."""
    return replace(batch, **{name: getattr(batch, name).double() for name in LOGPROBS})


def default_of(table: Framework, row: Recipe) -> BoundRecipe:
    """The recipe at its defaults."""
    return bind(row, table, {})


def _values(option: Option) -> list[object]:
    """Values that an option declares to take; constraints may still refuse them."""
    match option.kind:
        case "bool":
            found: list[object] = [True, False]
        case "choice":
            found = list(option.choices)
        case "int":
            found = [1, 7, 64]
        case "names":
            found = [*option.choices, ",".join(option.choices[:2])]
        case "pair" | "pairs":
            found = list(_PAIRS)
        case _:
            base = option.default if isinstance(option.default, float) and option.default else 1.3
            found = [base, 0.6 * base, 1.1 * base, 1.8 * base]
    return [*found, None] if option.nullable else found


@st.composite
def bound(draw: st.DrawFn, table: Framework, row: Recipe) -> BoundRecipe:
    """Draw three options of a recipe or its losses; one that a constraint refuses keeps its default."""
    known = [*row.options, *table.loss_options]
    chosen: dict[str, object] = {}
    recipe = default_of(table, row)
    for _ in range(min(3, len(known))):
        option = draw(st.sampled_from(known))
        tried = chosen | {option.short: draw(st.sampled_from(_values(option)))}
        try:
            recipe, chosen = bind(row, table, tried), tried
        except UsageError:
            continue
    return recipe
