"""Recipes of an installed package: listed, used, and what becomes of a package that is broken."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from iscope.cli.app import run
from iscope.recipes.own import plugins, points, registered
from tests.own_cases import PLUGIN

ROOT = PLUGIN.parents[2]
SAMPLE = str(ROOT / "sample_data" / "train_async.parquet")
BROKEN = (
    "The recipes acme-broken/... of the package acme-recipes 1.2 cannot be used: "
    "ModuleNotFoundError: No module named 'a_module_that_is_not_there'."
)
MISNAMED = (
    "The recipes acme-misnamed/... of the package acme-recipes 1.2 cannot be used: "
    "the name of its recipe 'acme/token_mask' does not begin with 'acme-misnamed/'."
)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the package, without a network."""
    source, target = tmp_path_factory.mktemp("plugin") / "source", tmp_path_factory.mktemp("site")
    shutil.copytree(PLUGIN, source, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    command += ["--disable-pip-version-check", "--target", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (target / "acme_recipes-1.2.dist-info" / "entry_points.txt").is_file()
    return target


@pytest.fixture
def iscope(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Runs a command line with the package installed: exit code, standard output, standard error."""

    def forget() -> None:
        points.installed.cache_clear()
        plugins._loaded.cache_clear()
        for name in [name for name in sys.modules if name.partition(".")[0] == "acme_recipes"]:
            del sys.modules[name]

    def command(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        said = capsys.readouterr()
        return code, said.out, said.err

    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("COLUMNS", "200")
    with monkeypatch.context() as patch:
        patch.setattr(registered, "frameworks", {})
        forget()
        yield command
    forget()


def test_the_catalogue_lists_them_and_warns_of_what_is_broken(site: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(site), "COLUMNS": "200"}
    command = [sys.executable, "-m", "iscope", "recipes"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [f"iscope: warning: {said}" for said in (BROKEN, MISNAMED)]
    words = done.stdout.split()
    assert {"acme/token_mask", "acme/damped", "acme-file/tight", "acme-rl/band", "trl/token_mask"} <= set(words)
    assert "acme-broken" not in done.stdout


def test_the_catalogue_as_json(iscope) -> None:
    code, output, said = iscope("recipes", "--format", "json")
    assert code == 0
    assert said.count("iscope: warning: ") == 2
    tables = {table["name"]: table for table in json.loads(output)["frameworks"]}
    assert [row["name"] for row in tables["acme"]["recipes"]] == ["acme/token_mask", "acme/damped"]
    assert tables["acme"]["version"] == "from acme-recipes 1.2"
    assert [row["same_as"] for row in tables["acme-file"]["recipes"]] == ["trl/token_mask"]
    assert tables["acme-rl"]["loss_options"][0]["short"] == "clip_eps"


@pytest.mark.parametrize("name", ["acme", "acme-rl"])
def test_a_prefix_shows_its_recipes(iscope, name: str) -> None:
    for arguments in (["recipes", name], ["recipes", "--framework", name]):
        code, output, said = iscope(*arguments)
        assert (code, said) == (0, "")
        assert f"{name}/" in output
        assert "trl/none" not in output


def test_a_recipe_in_full(iscope) -> None:
    code, output, said = iscope("recipes", "acme-rl/band:band_reach=3,clip_eps=0.1")
    assert (code, said) == (0, "")
    assert "acme-rl/band:reach=3,clip_eps=0.1" in output
    assert "reach must be above 1" in output


def test_they_are_replayed(iscope) -> None:
    names = ["acme/token_mask", "acme/damped:rate=0.5", "acme-file/tight", "acme-rl/band:reach=1.2", "trl/token_mask"]
    given = [piece for name in names for piece in ("--recipe", name)]
    code, output, said = iscope("analyze", SAMPLE, *given, "--format", "json")
    assert (code, said) == (0, "")
    entries = json.loads(output)["recipes"]
    assert [entry["name"] for entry in entries] == [name.partition(":")[0] for name in names]
    assert all(entry["named"] for entry in entries)
    mine, theirs = entries[0], entries[-1]
    for key in ("raw", "applied", "masked", "modified", "effective_batch_size", "gradient_left", "product_left"):
        assert mine[key] == theirs[key]
    assert entries[2]["options"]["clip_max"] == 1.5
    assert entries[3]["masked"]["tokens"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["recipes", "acme-broken/x"], BROKEN),
        (["recipes", "acme-broken"], BROKEN),
        (["analyze", SAMPLE, "--recipe", "acme-misnamed/token_mask"], MISNAMED),
        (["recipes", "acme/token_mas"], "There is no recipe 'acme/token_mas'. Did you mean 'acme/token_mask'?"),
        (["recipes", "acme-rl/mystery"], "Acme RL's mystery is not replayed: its source is not published."),
    ],
    ids=["recipe", "prefix", "analyze", "misspelt", "not replayed"],
)
def test_what_cannot_be_used_is_one_sentence(iscope, arguments: list[str], message: str) -> None:
    assert iscope(*arguments) == (2, "", f"iscope: error: {message}\n")


def test_nothing_is_loaded_that_is_not_asked_for(site: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r})\n"
        "from iscope.recipes import parse\n"
        "parse('trl/token_mask'); print(sorted(name for name in sys.modules if 'acme' in name))\n"
        "parse('acme-rl/band'); print(sorted(name for name in sys.modules if 'acme' in name))\n"
        "print('torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "['acme_recipes', 'acme_recipes.table']", "False"]
