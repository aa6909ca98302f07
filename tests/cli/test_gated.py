"""analyze --gates: the report as ever, and the exit code of the gates."""

from __future__ import annotations

import json

import pytest

from iscope.cli.app import run
from tests.following.steps import put


@pytest.fixture
def gates(tmp_path):
    def write(limit: float) -> str:
        file = tmp_path / "iscope.toml"
        file.write_text(
            f'defaults = false\n[[gates]]\nfigure = "mismatch.k3"\nmax = {limit}\nreason = "the last incident"\n'
        )
        return str(file)

    return write


@pytest.mark.parametrize(("limit", "code", "word"), [(1.0, 0, "CHECK PASS"), (1e-9, 1, "CHECK FAIL")])
def test_the_exit_code_is_that_of_the_gates(sample_data, gates, capsys, limit, code, word):
    words = ["--recipe", "none", "--format", "json", "--quiet"]
    assert run(["analyze", str(sample_data / "train_async.parquet"), *words, "--gates", gates(limit)]) == code
    out, err = capsys.readouterr()
    assert json.loads(out)["schema"]["name"] == "iscope.report"
    assert word in err
    assert run(["check", str(sample_data / "train_async.parquet"), "--gates", gates(limit)]) == code


def test_a_run_that_is_followed_ends_with_the_code_of_the_gates(tmp_path, sample_data, gates, capsys):
    folder = tmp_path / "run"
    folder.mkdir()
    put(sample_data / "train_async.parquet", folder)
    words = ["analyze", str(folder), "--follow", "--idle-timeout", "0", "--quiet-for", "0", "--recipe", "none"]
    assert run([*words, "--gates", gates(1e-9)]) == 1
    assert "the last incident" in capsys.readouterr().err
    assert run([*words, "--gates", gates(1.0)]) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--gates", "absent.toml"], "absent.toml"), (["--baseline", "absent.json"], "absent.json")],
)
def test_what_cannot_be_read_is_said_before_the_dump_is_looked_at(capsys, words, message):
    assert run(["analyze", "no such dump", *words]) == 2
    assert message in capsys.readouterr().err
