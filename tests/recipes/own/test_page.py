"""The examples of docs/own_recipes.md run as they stand."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from iscope.recipes import parse
from iscope.recipes.own import registered
from iscope.recipes.own.toml import recipes_of
from tests.own_cases import FILE, PLUGIN

ROOT = PLUGIN.parents[2]
PAGE = (ROOT / "docs" / "own_recipes.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


FILES = [block for block in blocks("toml") if "entry-points" not in block]


@pytest.mark.parametrize("text", FILES, ids=range(len(FILES)))
def test_the_files_are_read(text: str) -> None:
    own = recipes_of(text.encode(), "page.toml", FILE.parent)
    assert own
    for name in own:
        assert parse(name, own).spec.startswith(name)


def test_the_bounds_in_prose_are_read() -> None:
    inline = [span.replace("\n", " ") for span in re.findall(r"`(high = \{[^`]*\})`", PAGE)]
    assert len(inline) == 1
    text = f'[recipes."m/a"]\nweight = {{ level = "token", {inline[0]} }}\n'
    text += 'options = [{ name = "reach", kind = "float", default = 0.5 }]'
    assert parse("m/a", recipes_of(text.encode(), "page.toml", FILE.parent)).weight.high == 0.5


def test_the_entry_points_are_those_of_the_package_of_these_tests() -> None:
    shown = tomllib.loads(next(block for block in blocks("toml") if "entry-points" in block))
    real = tomllib.loads((PLUGIN / "pyproject.toml").read_text(encoding="utf-8"))
    points = shown["project"]["entry-points"]["iscope.recipes"]
    assert points.items() <= real["project"]["entry-points"]["iscope.recipes"].items()


def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(registered, "recipes", {})
    (code,) = blocks("python")
    held: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, "docs/own_recipes.md", "exec"), held)
    assert held["report"].recipes[0].spec == "mine/damped:rate=0.5,reach=none"
    assert held["report"].recipes[0].figures["masked"]["tokens"] == 0
