"""Own recipes and comparisons on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from iscope.cli.app import run
from iscope.cli.recipes import recipes
from iscope.errors import UsageError
from iscope.recipes import framework, frameworks
from tests.own_cases import FILE

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = str(ROOT / "sample_data" / "train_async.parquet")
app = typer.Typer(rich_markup_mode=None)
app.command("recipes")(recipes)


def catalogue(*arguments: str, width: int = 80) -> str:
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": str(width)}, catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def document(*arguments: str) -> Any:
    return json.loads(catalogue(*arguments, "--format", "json"))


@pytest.fixture
def iscope(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command line in this process: exit code, standard output, standard error."""

    def command(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


def test_own_recipes_are_listed_last() -> None:
    tables = document("--recipes", str(FILE))["frameworks"]
    assert len(tables) == len(frameworks()) + 1
    assert tables[-1]["title"] == f"own recipes of {FILE}"
    assert [row["name"] for row in tables[-1]["recipes"]][:2] == ["toml/short", "toml/shorter"]
    assert "toml/by_option" in catalogue("--recipes", str(FILE)).split()


def test_the_recipes_of_one_framework_with_own_ones_that_take_its_losses() -> None:
    assert catalogue("--framework", "verl") == catalogue("verl")
    names = [row["name"] for table in document("--framework", "verl")["frameworks"] for row in table["recipes"]]
    assert names == [row.name for row in framework("verl").recipes]
    tables = document("--framework", "prime-rl", "--recipes", str(FILE))["frameworks"]
    assert [row["name"] for row in tables[-1]["recipes"]] == ["toml/named"]
    assert len(document("--framework", "verl", "--recipes", str(FILE))["frameworks"]) == 1
    with pytest.raises(UsageError, match=r"^There is no framework 'verll'\. Did you mean 'verl'\?$"):
        catalogue("--framework", "verll")


@pytest.mark.parametrize("arguments", [("verl", "--framework", "trl"), ("verl", "--diff", "none", "icepop")])
def test_one_question_at_a_time(arguments: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=r"^Give a NAME, .* or --diff A B, not several of them\.$"):
        catalogue(*arguments)


def test_an_own_recipe_in_full() -> None:
    output = catalogue("toml/shorter", "--recipes", str(FILE), width=160)
    assert "toml/shorter:clip_min=0.5,clip_max=2" in output
    assert "same as   trl/token_mask" in output
    assert "clip_max = 2 (the default)" in output
    assert "loss_type = grpo (the default)" in output


@pytest.mark.parametrize("width", [60, 80, 160])
def test_what_differs_stands_side_by_side(width: int) -> None:
    output = catalogue("--diff", "trl/token_mask:clip_max=2,beta=0.1", "prime-rl/mis_po", width=width)
    assert max(len(line) for line in output.splitlines()) <= width
    words = " ".join(output.split())
    for text in ("weight: level", "token_mask:", "geo_mask", "loss: type", "formula", "source"):
        assert text in words


def test_a_difference_of_one_bound() -> None:
    found = document("--diff", "trl/token_mask:clip_max=2", "trl/token_mask")["difference"]
    assert found["recipes"] == ["trl/token_mask:clip_min=none,clip_max=2", "trl/token_mask:clip_min=none,clip_max=3"]
    assert found["rules"] == [{"what": "filter token_mask: upper bound", "values": ["2", "3"]}]
    assert found["options"] == [{"name": "clip_max", "values": ["2 (default 3)", "3"]}]
    assert found["formulas"][0] == found["formulas"][1]


def test_differences_in_words() -> None:
    found = document("--diff", "trl/token_truncate:clip_max=2", "trl/sequence_mask")["difference"]
    rules = {rule["what"]: rule["values"] for rule in found["rules"]}
    assert rules["weight: level"] == ["token", "sequence"]
    assert rules["weight: upper bound"] == ["2", "none"]
    assert rules["filter sequence_mask"] == ["none", "sum ratio of trainer/inference, upper bound 3, rejects rollout"]
    soft = document("--diff", "toml/soft", "none", "--recipes", str(FILE))["difference"]
    function = {rule["what"]: rule["values"] for rule in soft["rules"]}["weight: function"]
    assert function == [f"{FILE.parent}/functions.py:root(power=0.5)", "none"]


def test_recipes_that_do_the_same() -> None:
    output = catalogue("--diff", "toml/short", "trl/token_mask:clip_max=2,loss_type=grpo", "--recipes", str(FILE))
    assert output.startswith("They do the same: weight, filters and loss are equal with these options.")
    assert document("--diff", "icepop", "icepop")["difference"]["rules"] == []


def test_analyze_takes_a_file_of_recipes(iscope) -> None:
    code, output, said = iscope("analyze", SAMPLE, "--recipes", str(FILE), "--format", "json")
    assert (code, said) == (0, "")
    entries = json.loads(output)["recipes"]
    own = ["toml/short", "toml/shorter", "toml/named", "toml/token_mask", "toml/by_option", "toml/soft"]
    assert [entry["name"] for entry in entries[:8]] == ["none", *own, "trl/sequence_mask"]
    assert [entry["named"] for entry in entries[:8]] == [False, *[True] * 6, False]
    soft = entries[6]
    assert soft["masked"]["by_filter"][0]["name"] == "mean_abs"
    assert soft["applied"]["mean"]["value"] > 0
    _, output, _ = iscope(
        "analyze", SAMPLE, "--recipes", str(FILE), "--recipe", "toml/short:clip_max=4", "--format", "json"
    )
    assert [entry["spec"] for entry in json.loads(output)["recipes"]] == ["toml/short:clip_min=none,clip_max=4"]


def test_the_terminal_marks_them(iscope) -> None:
    code, output, _ = iscope("analyze", SAMPLE, "--recipes", str(FILE))
    assert code == 0
    assert any(line.lstrip().startswith(">") and "toml/short" in line for line in output.splitlines())


def test_replay_takes_a_file_of_recipes(iscope, tmp_path: Path) -> None:
    tables = []
    for name in ("toml/token_mask", "trl/token_mask"):
        path = tmp_path / f"{name.partition('/')[0]}.parquet"
        code, _, said = iscope("replay", SAMPLE, "--recipes", str(FILE), "--recipe", name, "-o", str(path))
        assert code == 0, said
        tables.append(pq.read_table(path))
    assert tables[0].equals(tables[1])


@pytest.mark.parametrize("command", ["analyze", "replay"])
def test_a_file_that_is_wrong_is_told_before_the_dump_is_looked_at(iscope, command: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[recipes."m/a"]\nbase = "trl/token_mass"', encoding="utf-8")
    output = ["-o", str(tmp_path / "out.parquet")] if command == "replay" else []
    code, printed, said = iscope(command, "nowhere.parquet", "--recipes", str(path), "--recipe", "m/a", *output)
    assert (code, printed) == (2, "")
    assert said == (
        f"iscope: error: {path}: [recipes.\"m/a\"] base: There is no recipe 'trl/token_mass'. "
        "Did you mean 'trl/token_mask'?\n"
    )
