"""The table of commands: each is found, listed by its line, and imported only when it is to run."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from iscope.cli import commands
from iscope.cli.app import app, run

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_a_command_is_the_function_of_its_name(name: str) -> None:
    command = commands.load(name)
    assert command.name == name
    assert {param.name for param in command.params} >= set(inspect.signature(commands.function(name)).parameters)
    assert command.callback.__name__.rstrip("_") == name


def test_help_lists_every_command_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    listed = capsys.readouterr().out.partition("Commands:\n")[2]
    said = {line.split()[0]: line.split(maxsplit=1)[1] for line in listed.splitlines() if line.strip()}
    assert said == {name: line for name, (_, line) in commands.COMMANDS.items()}
    assert list(said) == list(commands.COMMANDS)


def test_an_unknown_command_is_named_with_a_like_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recipez"]) == 2
    assert "No such command 'recipez'. Did you mean 'recipes'" in capsys.readouterr().err


def test_the_catalogue_alone_is_what_parsing_gives(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recipes"]) == 0
    alone = capsys.readouterr()
    assert typer.main.get_command(app).main(["recipes"], standalone_mode=False) is None
    assert capsys.readouterr() == alone
    assert "trl/token_mask" in alone.out


def test_every_parameter_of_the_catalogue_has_a_default() -> None:
    parameters = inspect.signature(commands.function(commands.CATALOGUE)).parameters.values()
    assert [one.name for one in parameters if one.default is inspect.Parameter.empty] == []


def loaded(*arguments: str) -> set[str]:
    code = "import sys; from iscope.cli.app import run; run(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stderr.split())


def test_help_imports_no_command() -> None:
    modules = loaded("--help")
    homes = {place.partition(":")[0] for place, _ in commands.COMMANDS.values()}
    assert modules & (homes | {"iscope.recipes", "rich", "pydantic", "numpy", "torch"}) == set()
    assert modules & {"iscope.cli.options", "iscope.dump.files"} == set()


def test_the_catalogue_imports_only_itself() -> None:
    modules = loaded("recipes")
    assert "iscope.cli.recipes" in modules
    assert modules & {"iscope.cli.analyze", "iscope.render.terminal", "rich", "pydantic", "numpy", "torch"} == set()


def test_a_reader_of_the_catalogue_may_leave() -> None:
    code = "import sys; from iscope.cli.app import run; sys.exit(run(['recipes']))"
    # Unbuffered, so that the first line meets a reader that is gone.
    with subprocess.Popen(
        [sys.executable, "-u", "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, "")
