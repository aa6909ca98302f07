"""``iscope recipes`` as printed: complete and within the terminal at every width, and the same as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from iscope.cli.recipes import recipes
from iscope.errors import UsageError
from iscope.recipes import framework, frameworks, names

WIDTHS = (60, 80, 160)
app = typer.Typer(rich_markup_mode=None)
app.command("recipes")(recipes)


def _run(*arguments: str, width: int = 80) -> str:
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": str(width)}, catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def _json(*arguments: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(_run(*arguments, "--format", "json"))
    assert document.pop("schema") == {"name": "iscope.recipes", "version": 1}
    return document


def _unwrapped(text: str) -> str:
    """Return the words of a text, one space apart, wherever its lines were broken."""
    return " ".join(text.split())


@pytest.mark.parametrize("width", WIDTHS)
def test_catalogue_fits_and_is_complete(width: int) -> None:
    output = _run(width=width)
    assert max(len(line) for line in output.splitlines()) <= width
    assert "…" not in output
    words = output.split()
    for table in frameworks():
        assert f"{table.title} {table.version}".strip() in output
        for row in table.recipes:
            assert row.name in words
            assert all(part in words or f"{part}," in words for part in _defaults(row.options))


def _defaults(options: Any) -> list[str]:
    return [f"{option.short}={_spelt(option.default)}" for option in options]


def _spelt(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value).removesuffix(".0")


@pytest.mark.parametrize("width", [60, 240])
def test_catalogue_shows_summaries_whole(width: int) -> None:
    output = _unwrapped(_run(width=width))
    for table in frameworks():
        for row in table.recipes:
            assert row.summary in output


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", names())
def test_one_recipe_in_full(name: str, width: int) -> None:
    output = _run(name, width=width)
    assert max(len(line) for line in output.splitlines()) <= width
    assert "…" not in output
    words = _unwrapped(output)
    entry = _json(name)["recipe"]
    for text in (name, entry["summary"], *entry["notes"], *entry["constraints"], *entry["loss_constraints"]):
        assert text in words
    for line in (*entry["formula"].splitlines(), entry["source"]):
        assert _unwrapped(line) in words
    for option in (*entry["options"], *entry["loss_options"]):
        for text in (option["short"], option["name"], *option["aliases"], option["doc"]):
            assert text in words


def test_one_recipe_shows_bound_values() -> None:
    output = _run("trl/token_mask:cap=5", width=160)
    assert "trl/token_mask:clip_min=none,clip_max=5" in output
    assert "clip_max = 5 (default 3)" in output
    assert "clip_min = none (the default)" in output


def test_an_option_that_the_loss_type_does_not_read_is_said() -> None:
    text = "trl/none:loss_type=cispo,delta=2,epsilon_high=5"
    output = _run(text, width=160)
    assert "delta = 2 (default none); not used with loss_type=cispo" in output
    assert output.count("not used") == 1
    assert _json(text)["recipe"]["unused"] == ["delta"]


def test_an_alias_shows_its_recipe() -> None:
    assert _run("geo_mask") == _run("geometric_mask")


def test_a_framework_shows_its_own_recipes() -> None:
    output = _run("trl")
    assert "trl/token_mask" in output
    assert "icepop" not in output


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["verl", "prime-rl", "trl"])
def test_a_framework_ends_with_what_is_not_replayed(name: str, width: int) -> None:
    output = _run(name, width=width)
    assert max(len(line) for line in output.splitlines()) <= width
    end = _unwrapped(output.partition("not replayed\n")[2])
    left = framework(name).not_replayed
    assert left
    for option, reason in left:
        assert f"{option} {reason}" in end
    table = _json(name)["frameworks"][0]
    assert [(entry["name"], entry["reason"]) for entry in table["not_replayed"]] == list(left)


def test_the_whole_catalogue_leaves_it_out() -> None:
    assert "not replayed\n" not in _run()


def test_catalogue_as_json() -> None:
    document = _json()
    rows = {row["name"]: row for table in document["frameworks"] for row in table["recipes"]}
    assert tuple(rows) == names()
    assert [table["name"] for table in document["frameworks"]] == [table.name for table in frameworks()]
    assert rows["trl/token_mask"]["options"][1] == {
        "name": "vllm_importance_sampling_clip_max",
        "short": "clip_max",
        "aliases": ["vllm_importance_sampling_cap", "cap", "vllm_importance_sampling_max", "max"],
        "kind": "float",
        "choices": [],
        "nullable": True,
        "default": 3.0,
        "doc": framework("trl").recipes[2].options[1].doc,
    }


def test_one_recipe_as_json() -> None:
    recipe = _json("trl/token_truncate:0.5,2")["recipe"]
    assert recipe["spec"] == "trl/token_truncate:clip_min=0.5,clip_max=2"
    assert recipe["values"].items() >= {"clip_min": 0.5, "clip_max": 2.0, "loss_type": "dapo"}.items()
    assert recipe["framework"] == "trl"


@pytest.mark.parametrize("arguments", [["token_mask"], ["token_mask", "--format", "json"]])
def test_an_unknown_name_is_a_usage_error(arguments: list[str]) -> None:
    with pytest.raises(UsageError, match=r"^There is no recipe 'token_mask'\. Did you mean 'trl/token_mask'\?$"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
