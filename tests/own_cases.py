"""Own recipes that the contract tests run on: of a file, of Python, of a package's source."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import iscope
from iscope.recipes import framework
from iscope.recipes.model import Filter, Framework, Level, Option, Pair, Recipe, Reduction, Ref, WeightRule
from iscope.recipes.own.check import checked, checked_framework
from iscope.recipes.own.function import recipe_of
from iscope.recipes.own.toml import read_recipes

DATA = Path(__file__).resolve().parent / "data"
FILE = DATA / "own" / "recipes.toml"
PLUGIN = DATA / "plugin"


@iscope.recipe("python/mask", framework="trl")
def mask(view, clip_min: float | None = None, clip_max: float | None = 3.0):
    """Token ratio as weight; tokens outside the bounds get weight 0."""
    ratio = view.ratio(Pair.TRAINER_INFERENCE)
    keep = (ratio >= (0.0 if clip_min is None else clip_min)) & (
        ratio <= (float("inf") if clip_max is None else clip_max)
    )
    return view.weight(Pair.TRAINER_INFERENCE), keep


@iscope.recipe("python/rollout", level="sequence", needs=["advantage"])
def rollout(view, reach: float = 0.5, both: bool = False):
    """One weight for a rollout: exp of the mean log-ratio; kept where that is near 0, or where A < 0."""
    mean = view.segments.mean(view.exact(Pair.TRAINER_INFERENCE))
    near = mean.abs() <= reach
    return mean.exp(), near if both else near | (view.segments.mean(view.token_advantage) < 0)


DATA_ROW = Recipe(
    name="python/token_mask",
    summary="Token ratio as weight; tokens outside the bounds get weight 0.",
    formula="w_t = rho_t if clip_min <= rho_t <= clip_max, else 0",
    source="a notebook",
    options=(
        Option("vllm_importance_sampling_clip_min", "clip_min", "float", None, "Lower bound.", nullable=True),
        Option("vllm_importance_sampling_clip_max", "clip_max", "float", 3.0, "Upper bound.", nullable=True),
    ),
    weight=WeightRule(Level.TOKEN),
    filters=(Filter("token_mask", low=Ref("clip_min"), high=Ref("clip_max")),),
    framework="trl",
)
MEAN = Recipe(
    name="python/mean",
    summary="Rollouts whose mean ratio is far from 1 are dropped.",
    formula="kept where low <= exp(G) <= high",
    source="a notebook",
    options=(
        Option("low", "low", "float", 0.8, "Lower bound."),
        Option("high", "high", "float", 1.25, "Upper bound."),
    ),
    filters=(Filter("mean", reduction=Reduction.MEAN, low=Ref("low"), high=Ref("high"), drops=True),),
)


def plugin_module(name: str) -> ModuleType:
    """A module of the plugin package, from its source."""
    full = f"acme_recipes.{name}" if name else "acme_recipes"
    path = PLUGIN / "src" / "acme_recipes" / f"{name or '__init__'}.py"
    spec = importlib.util.spec_from_file_location(full, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules.setdefault(full, importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


def _tables() -> tuple[Framework, ...]:
    """Own recipes in the tables of the frameworks whose losses they take."""
    packaged = [row if isinstance(row, Recipe) else recipe_of(row) for row in plugin_module("").RECIPES]
    rows = [*read_recipes(FILE).values(), *map(recipe_of, (mask, rollout)), *map(checked, (DATA_ROW, MEAN, *packaged))]
    owners = dict.fromkeys(row.framework or "" for row in rows)
    found = [
        replace(framework(owner), recipes=tuple(row for row in rows if (row.framework or "") == owner))
        for owner in owners
    ]
    table = checked_framework(plugin_module("table").FRAMEWORK)
    iscope.register(table)
    return (*found, table)


TABLES = _tables()
