from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from iscope.cli.app import run
from iscope.errors import DataError
from iscope.model import Report
from iscope.render.terminal import render, verdict_line
from tests.render import reports

Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]


class Api(ModuleType):
    """Stands in for the analysis: records its calls, returns a report or raises."""

    def __init__(self) -> None:
        super().__init__("iscope.api")
        self.calls: Calls = []
        self.outcome: Report | BaseException = reports.ordinary()

    def analyze(self, *dump: Any, **options: Any) -> Report:
        self.calls.append((dump, options))
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


@pytest.fixture(autouse=True)
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    fake = Api()
    monkeypatch.setitem(sys.modules, "iscope.api", fake)
    monkeypatch.delenv("ISCOPE_TRACEBACK", raising=False)
    return fake


def test_the_report_goes_to_stdout_and_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", "a.parquet"]) == 0
    out, err = capfd.readouterr()
    assert out == render(reports.ordinary(), width=80)
    assert err == ""


def test_every_option_reaches_the_analysis(api: Api) -> None:
    words = "analyze --trainer t1 --trainer t2 --vllm v --current c --ref r --on uid --recipe none --by env --by step"
    more = "--columns trainer=x,inference=y --columns ref=z --precision float64 --unscored neutral --strict --ledger l"
    more += " --batch 7 --healthy-k3 0.005 --from slime --include-text --engine ray --resume s --resume-every 5"
    more += " --allow-missing --device cpu"
    words_with_spaces = ["--recipe", "trl/token_mask:clip_min=0.5,clip_max=2", "--where", "step >= 10"]
    assert run([*words.split(), *words_with_spaces, *more.split()]) == 0
    assert api.calls == [
        (
            (),
            {
                "trainer": ["t1", "t2"],
                "vllm": ["v"],
                "current": ["c"],
                "ref": ["r"],
                "on": "uid",
                "recipes": ["none", "trl/token_mask:clip_min=0.5,clip_max=2"],
                "by": ["env", "step"],
                "where": "step >= 10",
                "columns": {"trainer": "x", "inference": "y", "ref": "z"},
                "from_format": "slime",
                "precision": "float64",
                "unscored": "neutral",
                "strict": True,
                "batch": "7",
                "device": "cpu",
                "ledger": "l",
                "recipes_file": [],
                "like": [],
                "fit": None,
                "healthy_k3": 0.005,
                "include_text": True,
                "engine": "ray",
                "resume": "s",
                "resume_every": 5.0,
                "allow_missing": True,
                "progress": None,
            },
        )
    ]


def test_defaults(api: Api) -> None:
    assert run(["analyze", "a", "b"]) == 0
    dump, options = api.calls[0]
    assert dump == ("a", "b")
    assert options["recipes"] is None
    assert options["columns"] is None
    assert (options["on"], options["precision"], options["unscored"]) == ("rollout_id", "float32", "exclude")
    assert options["device"] == "cpu"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "There is nothing to analyze: name a DUMP, or --trainer FILE and --vllm FILE."),
        (["--trainer", "a"], "--trainer needs --vllm FILE beside it: a ratio takes both sides."),
        (["--current", "a"], "--current needs --trainer FILE beside it: a ratio takes both sides."),
        (
            ["--trainer", "t", "--vllm", "a.parquet", "b.parquet"],
            "'b.parquet' stands beside --trainer but belongs to no side: repeat the option before each file, or quote "
            "a glob ('steps/*.parquet') so that the shell does not expand it.",
        ),
        (["a", "--columns", "x"], "--columns: 'x' is not NAME=COLUMN; write --columns trainer=..,inference=.."),
        (["a", "--columns", "t=1,t=2"], "--columns: 't' is given twice."),
        (["a", "--engine", "rya"], "engine must be local or ray, not 'rya'. Did you mean 'ray'?"),
        (["a", "--format", "jsn"], "There is no format 'jsn'; there are terminal, json, html, markdown. Did"),
        (["a", "-o", "x.html5"], "The extension of 'x.html5' names no format: end it in one of .txt, .json, .html, "),
        (["a", "--recipe", "trl/token_maks"], "There is no recipe 'trl/token_maks'. Did you mean 'trl/token_mask'?"),
        (["a", "--frob"], "No such option: --frob"),
    ],
)
def test_usage_errors_come_before_any_work(
    words: list[str], message: str, api: Api, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["analyze", *words]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"iscope: error: {message}")
    assert err.count("\n") == 1
    assert api.calls == []


@pytest.mark.parametrize(
    "words",
    [["--format", "json"], ["--format=json"], ["-o", "nowhere/x.json"], ["--output=nowhere/x.json"]],
)
def test_an_error_is_json_where_json_was_asked_for(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", "a", "--columns", "x", *words]) == 2
    out, err = capfd.readouterr()
    error = json.loads(out)["error"]
    assert (error["kind"], error["exit_code"]) == ("usage", 2)
    assert err == f"iscope: error: {error['message']}\n"


@pytest.mark.parametrize("words", [["--format", "terminal", "-o", "x.json"], ["--", "--format=json"], ["-q"]])
def test_an_error_is_no_json_otherwise(words: list[str], api: Api, capfd: pytest.CaptureFixture[str]) -> None:
    api.outcome = DataError("bad")
    run(["analyze", "--columns", "x", *words])
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("error", "code", "kind", "message"),
    [
        (DataError("a.parquet row 3, column x: bad.\nSee y."), 3, "data", "a.parquet row 3, column x: bad. See y."),
        (KeyboardInterrupt(), 130, "interrupted", "interrupted"),
        (MemoryError(), 4, "internal", "out of memory: "),
        (
            ValueError("\x1b[31mboom"),
            4,
            "internal",
            "internal error, ValueError: \\x1b[31mboom. Run it again with ISCOPE_",
        ),
        (OSError(5, "Input/output error"), 4, "internal", "internal error, OSError: "),
    ],
)
def test_every_failure_is_one_line_and_an_exit_code(
    error: BaseException, code: int, kind: str, message: str, api: Api, capfd: pytest.CaptureFixture[str]
) -> None:
    api.outcome = error
    assert run(["analyze", "a", "--format", "json"]) == code
    out, err = capfd.readouterr()
    document = json.loads(out)
    assert document["schema"] == {"name": "iscope.error", "version": 1}
    assert (document["error"]["kind"], document["error"]["exit_code"]) == (kind, code)
    assert err.startswith(f"iscope: error: {message}")
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_a_traceback_on_request(api: Api, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    api.outcome = ValueError("boom")
    monkeypatch.setenv("ISCOPE_TRACEBACK", "1")
    assert run(["analyze", "a"]) == 4
    assert "Traceback (most recent call last)" in capfd.readouterr().err


def test_json_on_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", "a", "--format", "json", "--quiet"]) == 0
    assert json.loads(capfd.readouterr().out) == reports.ordinary().to_dict()


def test_quiet_is_the_verdict_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", "a", "--quiet"]) == 0
    assert capfd.readouterr().out == verdict_line(reports.ordinary()) + "\n"


def test_verbose_shows_more(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", "a", "--verbose"]) == 0
    assert capfd.readouterr().out == render(reports.ordinary(), width=80, verbose=True)


@pytest.mark.parametrize(("columns", "width"), [("60", 60), ("160", 160)])
def test_width_is_the_terminals(
    columns: str, width: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert run(["analyze", "a"]) == 0
    assert capfd.readouterr().out == render(reports.ordinary(), width=width)


def test_color_only_where_forced_or_on_a_terminal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert run(["analyze", "a"]) == 0
    assert "\x1b[" in capfd.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(["analyze", "a"]) == 0
    assert "\x1b[" not in capfd.readouterr().out


@pytest.mark.parametrize(("name", "format_name"), [("r.json", None), ("r.txt", None), ("r.dat", "json")])
def test_a_file_takes_the_whole_report(
    name: str, format_name: str | None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    assert run(["analyze", "a", "-o", str(path), *(["--format", format_name] if format_name else [])]) == 0
    out, err = capfd.readouterr()
    assert out == ""
    assert err == f"{verdict_line(reports.ordinary())}\nThe report is in {path}.\n"
    text = path.read_text(encoding="utf-8")
    if name == "r.txt":
        assert text == render(reports.ordinary(), width=100)
    else:
        assert json.loads(text) == reports.ordinary().to_dict()
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
    assert path.stat().st_mode & stat.S_IRUSR


def test_a_file_is_not_overwritten_without_force(api: Api, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.json"
    path.write_text("old")
    path.chmod(0o640)
    assert run(["analyze", "a", "-o", str(path)]) == 2
    assert f"-o {path}: the file exists; add --force to overwrite it." in capfd.readouterr().err
    assert path.read_text() == "old"
    assert api.calls == []
    assert run(["analyze", "a", "-o", str(path), "--force"]) == 0
    assert json.loads(path.read_text()) == reports.ordinary().to_dict()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_force_follows_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("old")
    link.symlink_to(real)
    assert run(["analyze", "a", "-o", str(link), "--force"]) == 0
    assert link.is_symlink()
    assert json.loads(real.read_text()) == reports.ordinary().to_dict()


@pytest.mark.parametrize("option", ["", "--trainer", "--ledger"])
def test_an_input_is_never_overwritten(option: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dump.json"
    path.write_text("precious")
    words = {
        "": [str(path)],
        "--trainer": ["--trainer", str(path), "--vllm", "v"],
        "--ledger": ["a", "--ledger", str(path)],
    }
    assert run(["analyze", *words[option], "-o", str(path), "--force"]) == 2
    assert "this file is also used by the command itself" in capfd.readouterr().err
    assert path.read_text() == "precious"


def test_a_ledger_never_replaces_the_dump_nor_another_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dump.parquet"
    path.write_text("precious")
    assert run(["analyze", "a", "--ledger", str(path)]) == 2
    assert "add --force to overwrite it." in capfd.readouterr().err
    assert run(["analyze", str(path), "--ledger", str(path), "--force"]) == 2
    assert "this file is also used by the command itself" in capfd.readouterr().err
    assert run(["analyze", "a", "--ledger", str(tmp_path / "no" / "l")]) == 2
    assert "there is no folder" in capfd.readouterr().err
    assert path.read_text() == "precious"


def test_a_folder_cannot_be_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", "a", "-o", str(tmp_path), "--format", "json"]) == 2
    assert "this is a folder; name a file in it." in capfd.readouterr().err
    assert run(["analyze", "a", "-o", str(tmp_path / "no" / "r.json")]) == 2
    assert "there is no folder" in capfd.readouterr().err


def test_nothing_is_left_when_the_analysis_fails(api: Api, tmp_path: Path) -> None:
    api.outcome = DataError("bad")
    assert run(["analyze", "a", "-o", str(tmp_path / "r.json")]) == 3
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_when_the_file_system_fails(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "r.txt"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    assert run(["analyze", "a", "-o", str(path), "--force"]) == 2
    assert "cannot write it: No space left on device." in capfd.readouterr().err
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_device_is_written_to() -> None:
    before = os.stat(os.devnull)
    assert run(["analyze", "a", "-o", os.devnull, "--format", "json", "--quiet"]) == 0
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert os.stat(os.devnull).st_ino == before.st_ino
