"""A recipe from a file, from Python and from a package gives the bits of the one of iscope that it imitates."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import iscope
from iscope.api import make_plan
from iscope.engines import local
from iscope.ledger import store
from iscope.ledger.ledger import Ledger
from iscope.ledger.plan import Plan
from iscope.model import Report
from iscope.recipes import parse
from iscope.recipes.model import BoundRecipe, Pair, Recipe
from iscope.recipes.own.accept import bound
from iscope.recipes.own.toml import read_recipes, recipes_of
from tests.contract_cases import batch_of, ragged
from tests.own_cases import DATA_ROW, FILE, mask, plugin_module

BATCH = batch_of(ragged(lengths=(40, 12, 0, 25, 3, 60), spread=0.5))
OWN = read_recipes(FILE)
SAME = [
    pytest.param(bound("toml/token_mask", OWN), "trl/token_mask", id="file"),
    pytest.param(
        bound("toml/token_mask:0.5,2,loss_type=cispo", OWN), "trl/token_mask:0.5,2,loss_type=cispo", id="options"
    ),
    pytest.param(bound(DATA_ROW), "trl/token_mask", id="python"),
    pytest.param(bound(plugin_module("").RECIPES[0]), "trl/token_mask", id="package"),
    pytest.param(bound("toml/short", OWN), "trl/token_mask:clip_max=2,loss_type=grpo", id="base"),
    pytest.param(bound("toml/shorter", OWN), "trl/token_mask:0.5,2,loss_type=grpo", id="base of a base"),
    pytest.param(bound("toml/named", OWN), "prime-rl/ipo:eps=0.5", id="base with a table"),
]


def figures(report: Report) -> list[dict[str, Any]]:
    """What a report says of its recipes, but for their names."""
    entries = report.to_dict()["recipes"]
    return [
        {key: value for key, value in entry.items() if key not in ("name", "spec", "framework")} for entry in entries
    ]


def ledger_of(recipe: BoundRecipe) -> Ledger:
    return local.run([BATCH], Plan((recipe,)), cuts={})


@pytest.mark.parametrize(("own", "imitated"), SAME)
def test_the_same_report_and_ledger(own: BoundRecipe, imitated: str) -> None:
    theirs = parse(imitated)
    mine, other = (iscope.analyze(BATCH, recipes=[recipe]) for recipe in (own, theirs))
    assert figures(mine) == figures(other)
    assert mine.to_dict()["mismatch"] == other.to_dict()["mismatch"]
    measured, expected = ledger_of(own), ledger_of(theirs)
    assert set(measured.rows.columns) <= set(expected.rows.columns)
    for rows, whole in ((measured.rows, expected.rows), (measured.trained, expected.trained)):
        assert rows.to_frame().equals(whole.select(rows.columns))
    assert {k: v.tolist() for k, v in measured.histograms.items()} == {
        k: v.tolist() for k, v in expected.histograms.items()
    }


@pytest.mark.parametrize(("own", "imitated"), SAME)
def test_the_same_replay_token_by_token(own: BoundRecipe, imitated: str) -> None:
    mine, theirs = (iscope.replay(BATCH, recipe=recipe) for recipe in (own, imitated))
    assert mine.loss == theirs.loss
    assert mine.to_polars().equals(theirs.to_polars())


@pytest.mark.parametrize(("own", "imitated"), SAME)
def test_a_base_brings_the_metrics_of_its_framework(own: BoundRecipe, imitated: str) -> None:
    mine, theirs = (iscope.analyze(BATCH, recipes=[r]).to_dict()["recipes"][0]["framework"] for r in (own, imitated))
    assert theirs
    assert mine == (theirs if own.row.base else {})


def test_a_function_gives_the_same_decisions() -> None:
    mine, theirs = (iscope.replay(BATCH, recipe=r).to_polars() for r in (mask, "trl/token_mask"))
    assert mine["keep"].equals(theirs["keep"])
    for name in ("weight", "coefficient"):
        gap = (mine[name].explode() - theirs[name].explode()).abs().max()
        assert isinstance(gap, float)
        assert gap <= 1e-6
    ours, other = (ledger_of(bound(r)).rows for r in (mask, "trl/token_mask"))
    for column in ("kept", "modified", "rejected0_low"):
        assert column in {name.partition(":")[2] for name in ours.columns}
    assert ours["recipe0:kept"].equals(other["recipe0:kept"])
    assert _close(ours["recipe0:weight_sum"], other["recipe0:weight_sum"])
    assert _close(ours["recipe0:gradient_positive"], other["recipe0:gradient_positive"])


def _close(one: pl.Series, other: pl.Series) -> bool:
    return bool(((one - other).abs() <= 1e-12 * other.abs()).all())


def test_recipes_of_a_file_join_the_default_list(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[recipes]\n"m/b" = "trl/token_mask"\n"m/a" = "prime-rl/ipo"', encoding="utf-8")
    plan = make_plan(recipes_file=path)
    assert [recipe.name for recipe in plan.recipes[:4]] == ["none", "m/b", "m/a", "trl/sequence_mask"]
    assert [recipe.named for recipe in plan.recipes[:4]] == [False, True, True, False]
    named = make_plan(["m/a:eps=1", "none"], recipes_file=[path])
    assert [recipe.spec for recipe in named.recipes] == ["m/a:eps=1,max_importance_ratio=10000", "none"]


def fingerprint(recipe: Any) -> str:
    return make_plan([recipe]).fingerprint()


def test_another_definition_under_the_same_name_is_another_plan() -> None:
    tables = ['{ level = "token", high = 2 }', '{ level = "token", high = 3 }', '{ level = "token", low = 2 }']
    rows = [_written(table) for table in tables]
    assert len({bound(row).spec for row in rows}) == 1
    assert len({fingerprint(row) for row in rows}) == 3
    assert fingerprint(rows[0]) == fingerprint(_written(tables[0]))


def _written(weight: str) -> Recipe:
    return recipes_of(f'[recipes."m/a"]\nweight = {weight}'.encode(), "m.toml", Path("/nowhere"))["m/a"]


def test_another_function_under_the_same_name_is_another_plan() -> None:
    def one(view, cap: float = 2.0):
        return view.weight(Pair.TRAINER_INFERENCE).clamp(max=cap)

    def other(view, cap: float = 2.0):
        return view.weight(Pair.TRAINER_INFERENCE).clamp(max=2 * cap)

    found = set()
    for function in (one, other):
        iscope.recipe("m/f")(function)
        found.add(fingerprint(function))
    assert len(found) == 2


def test_where_a_function_is_does_not_matter(tmp_path: Path) -> None:
    for path in (FILE, FILE.with_name("functions.py")):
        shutil.copy(path, tmp_path)
    moved = read_recipes(tmp_path / FILE.name)
    assert moved["toml/soft"] != OWN["toml/soft"]
    assert fingerprint(bound("toml/soft", moved)) == fingerprint(bound("toml/soft", OWN))
    text = (tmp_path / "functions.py").read_text(encoding="utf-8").replace("power * view", "2 * power * view")
    (tmp_path / "edited.py").write_text(text, encoding="utf-8")
    (tmp_path / "mine.toml").write_text(FILE.read_text(encoding="utf-8").replace("functions.py", "edited.py"), "utf-8")
    edited = read_recipes(tmp_path / "mine.toml")
    assert fingerprint(bound("toml/soft", edited)) != fingerprint(bound("toml/soft", OWN))


def test_a_ledger_keeps_own_recipes_as_they_were(tmp_path: Path) -> None:
    recipes = [bound("toml/soft", OWN), bound("toml/short:clip_min=0.25", OWN), bound(mask), bound("trl/token_mask")]
    plan = Plan(tuple(replace(recipe, named=True) for recipe in recipes))
    measured = local.run([BATCH], plan, cuts={})
    store.save(measured, tmp_path / "ledger")
    read = store.load(tmp_path / "ledger").plan
    assert [recipe.spec for recipe in read.recipes] == [recipe.spec for recipe in recipes]
    assert read.recipes[1].filters == recipes[1].filters
    assert read.recipes[2].functions[0].reference == "tests.own_cases:mask"
    assert read.fingerprint() == plan.fingerprint()
