"""Golden cases: what a framework's own code gave, and the recipe that replays it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import polars as pl
import torch

from iscope.analysis.report import build_report
from iscope.ledger.ledger import Ledger, LedgerBuilder
from iscope.ledger.measure import measure
from iscope.ledger.plan import Plan
from iscope.model import Report
from iscope.recipes.grammar import parse
from iscope.recipes.model import BoundRecipe
from iscope.rollouts import RolloutBatch

DUMPS = {"": "rollouts", "_nan": "rollouts_nan", "_extreme": "rollouts_extreme"}


def golden_batch(folder: Path, variant: str, columns=("trainer_logprobs", "inference_logprobs")) -> RolloutBatch:
    """Read a golden dump in float64, the precision that the frameworks ran in."""
    dump = pl.read_parquet(folder / f"{DUMPS[variant]}.parquet")
    batch = RolloutBatch.from_lists(
        *(dump[name].to_list() for name in columns[:2]),
        dump["loss_mask"].to_list(),
        advantage=dump["advantage"].to_list(),
        columns=dump.select("rollout_id", "group_id", "step", "reward"),
        **{name: dump[name].to_list() for name in columns[2:]},
    )
    logprobs = {name: getattr(batch, name) for name in columns}
    return replace(batch, **{name: values.to(torch.float64) for name, values in logprobs.items()})


def cases(folder: Path, name: str, kind: str) -> list[dict]:
    """Cases of one kind of a golden file."""
    rows = pl.read_parquet(folder / f"{name}.parquet").filter(pl.col("kind") == kind)
    return [row | {"spec": json.loads(row["spec"])} for row in rows.iter_rows(named=True)]


def ledger_of(batch: RolloutBatch, recipes: list[BoundRecipe]) -> Ledger:
    """Measure a batch at float64."""
    plan = Plan(tuple(recipes), precision="float64")
    builder = LedgerBuilder(plan)
    builder.add([batch], measure(batch, plan))
    return builder.finish()


def report_of(batch: RolloutBatch, recipes: list[str]) -> Report:
    """Replay recipes at float64."""
    return build_report(ledger_of(batch, [parse(recipe) for recipe in recipes]))


def relative_error(found: list[float], expected: list[float]) -> float:
    """Largest absolute error over the largest absolute value."""
    scale = max((abs(x) for x in expected), default=0.0)
    worst = max((abs(a - b) for a, b in zip(found, expected, strict=True)), default=0.0)
    assert not math.isnan(worst)
    return worst / scale if scale else worst
