from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from iscope import __version__

ROOT = Path(__file__).resolve().parents[2]
FAKE = """
import sys, types
from iscope.errors import DataError
from tests.render import reports
api = types.ModuleType("iscope.api")
def analyze(*dump, progress=None, **options):
    if progress is not None:
        progress(3, 1200)
        progress(2, 34)
    {body}
api.analyze = analyze
sys.modules["iscope.api"] = api
sys.argv = ["iscope", "analyze", *{words!r}]
from iscope.cli.app import main
main()
"""


def iscope(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "iscope", *words, **environment)


def analyze(
    *words: str, body: str = "return reports.ordinary()", **environment: str
) -> subprocess.CompletedProcess[str]:
    return python("-c", FAKE.format(body=body, words=list(words)), **environment)


def python(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONIOENCODING": "utf-8", **environment}
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=env, capture_output=True, encoding="utf-8", timeout=60, check=False
    )


def test_help_without_a_command() -> None:
    for words in ([], ["--help"], ["-h"]):
        done = iscope(*words)
        assert (done.returncode, done.stderr) == (0, "")
        assert "analyze" in done.stdout
        assert "recipes" in done.stdout


def test_version() -> None:
    assert iscope("--version").stdout == f"iscope {__version__}\n"


@pytest.mark.parametrize("command", ["analyze", "recipes"])
@pytest.mark.parametrize("columns", ["60", "80"])
def test_help_of_a_command(command: str, columns: str) -> None:
    done = iscope(command, "--help", COLUMNS=columns)
    assert (done.returncode, done.stderr) == (0, "")
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert not {"\x1b", "╭"} & set(done.stdout)


def test_analyze_help_is_in_groups_and_complete() -> None:
    text = iscope("analyze", "--help").stdout
    options = "trainer vllm current ref on recipe by where columns precision unscored strict ledger format output force"
    for option in (*options.split(), "quiet", "verbose"):
        assert f"--{option}" in text
    for title in ("Arguments:", "Two-sided dumps:", "What to look at:", "How to read values:", "Output:"):
        assert f"\n{title}\n" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["analize"], "iscope: error: No such command 'analize'. Did you mean 'analyze'?\n"),
        (["analyze", "a", "--recipe"], "iscope: error: Option '--recipe' requires an argument.\n"),
        (["analyze"], "iscope: error: There is nothing to analyze: name a DUMP, or --trainer FILE and --vllm FILE.\n"),
    ],
)
def test_usage_errors(words: list[str], message: str) -> None:
    done = iscope(*words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)


def test_a_usage_error_does_not_wait_for_torch() -> None:
    code = "import sys; from iscope.cli.app import run; code = run(sys.argv[1:]); print(code, 'torch' in sys.modules)"
    for words in (["analyze"], ["analyze", "a", "-o", "x.foo"], ["analyze", "a", "--recipe", "nonesuch"]):
        assert python("-c", code, *words).stdout == "2 False\n"


def test_a_report_from_a_process() -> None:
    done = analyze("a.parquet")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[2].startswith("VERDICT NOT HEALTHY: ")


def test_exit_codes_of_a_process() -> None:
    assert analyze("a", body="raise DataError('bad')").returncode == 3
    assert analyze("a", body="raise ValueError('bad')").returncode == 4
    done = analyze("a", "--format=json", body="raise KeyboardInterrupt")
    assert done.returncode == 130
    assert json.loads(done.stdout)["error"]["kind"] == "interrupted"
    assert done.stderr == "iscope: error: interrupted\n"


def test_a_terminal_without_unicode() -> None:
    done = analyze("a", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("iscope ? trainer.parquet")


def test_json_is_utf8_whatever_the_locale() -> None:
    done = analyze("a", "--format", "json", body="return reports.hostile('日本')", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["findings"][0]["title"] == "日本"


@pytest.mark.parametrize("words", [["recipes"], ["--help"]])
def test_a_reader_that_leaves_early_is_no_error(words: list[str]) -> None:
    assert leave_early([sys.executable, "-m", "iscope", *words]) == (0, b"")


def test_a_report_whose_reader_leaves_early_is_no_error() -> None:
    code = FAKE.format(body="return reports.ordinary()", words=["a", "--format", "json"])
    assert leave_early([sys.executable, "-c", code]) == (0, b"")


def leave_early(command: list[str]) -> tuple[int, bytes]:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=write, stderr=subprocess.PIPE, timeout=60, check=False)
    finally:
        os.close(write)
    return done.returncode, done.stderr


def test_progress_only_on_a_terminal() -> None:
    command = [sys.executable, "-c", FAKE.format(body="return reports.ordinary()", words=["a"])]
    assert b"5 rollouts, 1,234 tokens read" in stderr_of_terminal(command)
    quiet = [sys.executable, "-c", FAKE.format(body="return reports.ordinary()", words=["a", "--quiet"])]
    assert stderr_of_terminal(quiet) == b""


def test_a_pause_to_compile_is_explained() -> None:
    compile_ = "from iscope.replay.compiled import compiled; compiled()(lambda x: x)(1); return reports.ordinary()"
    command = [sys.executable, "-c", FAKE.format(body=compile_, words=["a"])]
    assert b"compiling loops for this machine, once" in stderr_of_terminal(command)


def stderr_of_terminal(command: list[str]) -> bytes:
    pty = pytest.importorskip("pty")
    main, side = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=side)
    os.close(side)
    shown = b""
    try:
        while part := os.read(main, 4096):
            shown += part
    except OSError:  # the other side has closed
        pass
    finally:
        process.wait(timeout=60)
        os.close(main)
    return shown
