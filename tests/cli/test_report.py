from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import iscope
from iscope.cli.app import run
from iscope.model.saved import read_report
from tests.render.full_reports import full, real

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "saved.json"
    path.write_text(json.dumps(real("fresh").to_dict()), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["json", "html", "md", "txt"])
def test_a_saved_report_is_what_analyze_would_have_written(
    saved: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from iscope.render import format_of, renderer

    out = tmp_path / f"out.{name}"
    assert run(["report", str(saved), "-o", str(out)]) == 0
    assert out.read_text(encoding="utf-8") == renderer(format_of(str(out)))(real("fresh"))
    assert str(out) in capsys.readouterr().err


@pytest.mark.parametrize(("name", "start"), [("a.html", "<!doctype html>"), ("a.md", "# iscope: ")])
def test_analyze_writes_the_format_of_the_extension(tmp_path: Path, name: str, start: str) -> None:
    dump = ROOT / "sample_data" / "train_async.parquet"
    assert run(["analyze", str(dump), "--recipe", "none", "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)


@pytest.mark.parametrize("format_name", ["terminal", "markdown", "html", "json"])
def test_it_needs_neither_torch_nor_numpy_nor_the_dump(saved: Path, format_name: str) -> None:
    code = (
        "import sys\n"
        "from iscope.cli.app import run\n"
        f"code = run(['report', {str(saved)!r}, '--format', {format_name!r}])\n"
        "print(code, sorted({'torch', 'polars', 'pyarrow'} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60, check=False)
    assert done.stderr.decode().splitlines()[-1] == "0 []"
    assert done.stdout


def test_html_and_markdown_on_stdout_are_utf8_wherever_they_go(tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    path.write_text(json.dumps(full("\u05e9\u2265").to_dict()), encoding="utf-8")
    for format_name in ("html", "markdown"):
        done = subprocess.run(
            [sys.executable, "-m", "iscope", "report", str(path), "--format", format_name],
            cwd=ROOT,
            capture_output=True,
            timeout=60,
            check=True,
            env={"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"},
        )
        assert "\u05e9\u2265" in done.stdout.decode("utf-8")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("# a page", "this is not a report saved as JSON"),
        ("[1]", "it is JSON, not of a report"),
        ("{}", "it has no schema, not of a report"),
        (
            '{"schema": {"name": "iscope.inspection", "version": 1}}',
            "its schema is iscope.inspection version 1, not of a report",
        ),
        (
            '{"schema": {"name": "iscope.report", "version": 9}}',
            "its schema is iscope.report version 9, not of a report",
        ),
        ('{"schema": {"name": "iscope.report", "version": 1}}', "the report is not whole (KeyError: 'mismatch')"),
        (
            '{"schema": {"name": "iscope.report", "version": 1}, "mismatch": {"k3": NaN}}',
            "this is not a report saved as JSON: NaN is no JSON",
        ),
        (b"\xff\xfe", "this is not a report saved as JSON"),
        ("[" * 100_000, "this is not a report saved as JSON: it is nested too deeply"),
        ("9" * 400, "this is not a report saved as JSON: 99999999999999999999 is too large a number"),
        ("1e999", "this is not a report saved as JSON: 1e999 is too large a number"),
    ],
)
def test_what_is_no_saved_report_is_refused_in_a_sentence(
    tmp_path: Path, content: str | bytes, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "saved.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert run(["report", str(path)]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{path}: {said}" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("value", [None, True, 7, 0.5, "x", [], [None], {}, {"a": []}], ids=repr)
@pytest.mark.parametrize(
    "place",
    [
        *[(part,) for part in ("assumptions", "breakdowns", "provenance", "mismatch", "recipes", "findings")],
        *[(part,) for part in ("distributions", "worst", "sampling")],
        *[("verdict", name) for name in ("word", "message", "action")],
        *[("coverage", *names) for names in (("files",), ("notes",), ("rollouts", "read"), ("tokens", "unscored"))],
        *[("recipes", 1, name) for name in ("name", "spec", "options", "unit", "named", "framework")],
        *[("findings", 0, name) for name in ("code", "severity", "message", "tokens", "examples", "evidence")],
    ],
    ids=lambda place: ".".join(map(str, place)),
)
@pytest.mark.parametrize("arguments", [["--format", "html"], ["-v"]], ids=" ".join)
def test_a_report_with_something_else_in_it_is_no_crash(
    saved: Path, arguments: list[str], place: tuple[str | int, ...], value: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads(saved.read_text(encoding="utf-8"))
    inner = data
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    saved.write_text(json.dumps(data), encoding="utf-8")
    assert run(["report", str(saved), *arguments]) in (0, 3)
    err = capsys.readouterr().err
    assert not err or f"{saved}: the report is not whole (" in err


def test_values_of_a_breakdown_are_read_as_they_were(tmp_path: Path) -> None:
    """Whole numbers up to those of 64 bits, and flags."""
    seeds = [2**63 - 1, -(2**63), 7, 7] * 3
    table = pl.DataFrame(
        {
            "trainer_logprobs": [[-1.0, -0.5]] * 12,
            "inference_logprobs": [[-1.1, -0.5]] * 12,
            "seed": seeds,
            "cut": [True, False] * 6,
        }
    )
    report = iscope.analyze(table, recipes=["none"], by=["seed", "cut"])
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report.to_dict()))
    assert read_report(path).to_dict() == report.to_dict()
    assert {row["value"] for row in report.breakdowns["seed"]} == set(seeds)


def test_a_damaged_figure_is_no_crash(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(saved.read_text(encoding="utf-8"))
    data["mismatch"]["k3"] = {"value": None}
    saved.write_text(json.dumps(data), encoding="utf-8")
    assert run(["report", str(saved)]) == 3
    assert "the report is not whole" in capsys.readouterr().err


def test_a_missing_file_and_its_own_output_are_refused(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(saved.parent / "none.json")]) == 3
    assert "cannot read it: No such file or directory" in capsys.readouterr().err
    assert run(["report", str(saved), "-o", str(saved), "--force"]) == 2
    assert "also used by the command itself" in capsys.readouterr().err
