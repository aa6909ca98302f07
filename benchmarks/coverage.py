"""How often the 95% intervals cover: samples of groups are drawn from real healthy dumps, which are the population.

    python benchmarks/coverage.py [--samples 300] [--small]

Each sample has as many groups as its dump, drawn with replacement; every figure is computed as in a report and set
against its value on the whole dump. A row pools a figure over dumps, recipes and buckets. ``lowest`` is the lowest
coverage of any of them that was shown in at least half of the samples. ``--small`` takes dumps of 12 groups instead:
there the population is so small itself that one group in it decides much.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import polars as pl

from iscope.analysis.figures import MISMATCH, RECIPE
from iscope.analysis.recipe_rows import RecipeRows
from iscope.analysis.rows import Rows, scored_rows
from iscope.api import make_plan
from iscope.dump import Sides, open_dump
from iscope.engines import local
from iscope.ledger.ledger import Ledger
from iscope.ledger.rows import LedgerRows
from iscope.model import Figure, Node

SAMPLE = Path(__file__).resolve().parents[1] / "tests" / "data" / "sample"
HEALTHY = ("base/trainer_fp32_lag0", "base/trainer_bf16_lag0", "train_sync/trainer_fp32", "train_sync/trainer_bf16")
SMALL = ("engine_fp16/trainer_fp32", "engine_int8/trainer_fp32", "temp07_raw/trainer_fp32")
RECIPES = ("trl/token_truncate:clip_max=2", "trl/sequence_mask:clip_max=3", "prime-rl/mis_po", "icepop:0.5,5")
# Modules whose figures have no intervals.
WITHOUT = ("tail", "keep")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--small", action="store_true", help="dumps of 12 groups")
    arguments = parser.parse_args()
    found: dict[str, list[tuple[str, float, float]]] = defaultdict(list)
    for dump in SMALL if arguments.small else HEALTHY:
        started = time.perf_counter()
        for name, shown, covered in coverage(dump, arguments.samples):
            found[name.partition(" ")[0]].append((f"{dump} {name.partition(' ')[2]}", shown, covered))
        print(f"{dump}: {time.perf_counter() - started:.0f} s", flush=True)
    print(f"{'figure':<52} {'cases':>5} {'shown':>6} {'covers':>7} {'lowest':>7}  where")
    for name, cases in sorted(found.items()):
        shown, covered = (sum(case[index] for case in cases) for index in (1, 2))
        usual = [case for case in cases if case[1] >= arguments.samples / 2] or cases
        where, times, hits = min(usual, key=lambda case: case[2] / case[1])
        share = shown / (len(cases) * arguments.samples)
        print(f"{name:<52} {len(cases):>5} {share:>6.0%} {covered / shown:>7.1%} {hits / times:>7.1%}  {where}")


def coverage(dump: str, samples: int) -> Iterator[tuple[str, int, int]]:
    """Yield each figure of a dump that was ever shown with an interval: how often, and how often it covered."""
    ledger = ledger_of(dump)
    rows = scored_rows(ledger)
    truth = {name: figure.value for name, figure in figures_of(ledger, rows)}
    whole = rows.frame.to_frame()
    groups = [group.to_numpy() for group in whole.with_row_index().group_by("group_id").agg("index")["index"]]
    random = np.random.default_rng(0)
    shown: dict[str, int] = defaultdict(int)
    covered: dict[str, int] = defaultdict(int)
    for _ in range(samples):
        drawn = [groups[index] for index in random.integers(0, len(groups), len(groups))]
        ids = np.repeat(np.arange(len(drawn)), [len(group) for group in drawn])
        frame = whole[np.concatenate(drawn)].with_columns(pl.Series("group_id", ids))
        for name, figure in figures_of(ledger, Rows(LedgerRows.of(frame), rows.histograms)):
            value = truth.get(name)
            if figure.low is not None and figure.high is not None and value is not None:
                shown[name] += 1
                covered[name] += figure.low <= value <= figure.high
    for name, times in shown.items():
        yield name, times, covered[name]


def ledger_of(dump: str) -> Ledger:
    """Measure a dump."""
    folder, _, trainer = dump.partition("/")
    sides = Sides(trainer=(SAMPLE / folder / f"{trainer}.parquet",), inference=(SAMPLE / folder / "vllm.parquet",))
    return local.run(open_dump([], sides=sides).batches(), make_plan(list(RECIPES)))


def figures_of(ledger: Ledger, rows: Rows) -> Iterator[tuple[str, Figure]]:
    """Yield the figures of a report by their names, those of recipes and buckets followed by which one."""
    for module in MISMATCH:
        if module not in WITHOUT:
            yield from _walk("mismatch", import_module(f"iscope.analysis.figures.{module}").figures(rows))
    for index, recipe in enumerate(ledger.plan.recipes):
        of_recipe = RecipeRows(rows, index, recipe, ledger.plan.base_of[index])
        for module in RECIPE:
            if module not in WITHOUT:
                figures = import_module(f"iscope.analysis.figures.{module}").figures(of_recipe)
                yield from ((f"{name} {recipe.name}", figure) for name, figure in _walk("recipes", figures))


def _walk(name: str, node: Node) -> Iterator[tuple[str, Figure]]:
    if isinstance(node, Figure):
        yield name, node
    elif isinstance(node, list):
        for index, child in enumerate(node):
            yield from ((f"{inner} bucket {index}", figure) for inner, figure in _walk(name, child))
    elif isinstance(node, dict):
        if isinstance(node.get("value"), float):
            yield name, Figure(**{key: node.get(key) for key in ("value", "low", "high")})  # type: ignore[arg-type]
        for key, child in node.items():
            yield from _walk(f"{name}.{key}", child)


if __name__ == "__main__":
    main()
