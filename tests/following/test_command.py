"""``iscope analyze --follow`` as a process, while a thread writes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from iscope.cli.app import run
from iscope.following import rounds
from tests.following.steps import put

ROOT = Path(__file__).resolve().parents[2]


def started(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "iscope", "analyze", "--follow", "--quiet-for", "0.2", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def whole(capsys, *words: str) -> str:
    assert run(["analyze", *words]) == 0
    return capsys.readouterr().out


def without_provenance(text: str):
    return {name: part for name, part in json.loads(text).items() if name != "provenance"}


def test_a_run_is_followed_to_its_last_step(tmp_path, steps, capsys):
    folder = tmp_path / "run"
    put(steps[0], folder)

    def write():
        for step in steps[1:]:
            time.sleep(0.3)
            put(step, folder)

    process = started(str(folder), "--follow-until", "5", "--format", "json")
    writer = threading.Thread(target=write)
    writer.start()
    out, err = process.communicate(timeout=120)
    writer.join()
    assert process.returncode == 0
    assert without_provenance(out) == without_provenance(whole(capsys, str(folder), "--format", "json"))
    assert set(re.findall(r"iscope: step (\d): \d+ rollouts, [\d,]+ tokens, k3 ", err)) == set("012345")
    assert all(line.startswith("iscope: ") for line in err.splitlines())


def test_ctrl_c_ends_with_the_report(tmp_path, steps, capsys):
    put(steps[0], tmp_path)
    process = started(str(tmp_path))
    assert process.stderr.readline() == "iscope: waiting for finished files; Ctrl-C ends with the report\n"
    assert "1 file, 32 rollouts" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out == whole(capsys, str(tmp_path))


def test_ctrl_c_before_there_is_a_report(tmp_path, capsys, monkeypatch):
    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(rounds.time, "sleep", interrupted)
    assert run(["analyze", "--follow", str(tmp_path), "--quiet"]) == 130
    assert capsys.readouterr() == ("", "iscope: error: interrupted\n")


def test_a_report_in_a_file_and_quiet(tmp_path, steps, capsys):
    put(steps[0], tmp_path / "run")
    words = [str(tmp_path / "run"), "-o", str(tmp_path / "report.json"), "--idle-timeout", "0"]
    assert run(["analyze", "--follow", "--quiet-for", "0", "--quiet", *words]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("VERDICT")
    text = (tmp_path / "report.json").read_text()
    assert without_provenance(text) == without_provenance(whole(capsys, words[0], "--format", "json"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--quiet-for", "1"], "--quiet-for goes with --follow."),
        (["--follow-until", "1"], "--follow-until goes with --follow."),
        (["--idle-timeout", "1"], "--idle-timeout goes with --follow."),
        (["--follow", "--idle-timeout", "-1"], "--idle-timeout must be 0 or more, not -1.0."),
        (["--follow", "--quiet-for", "nan"], "--quiet-for must be 0 or more, not nan."),
        (["--follow", "--fit", "keep=.9"], "--fit needs the whole dump before it is measured"),
        (["--follow", "--engine", "ray"], "leave out --engine, --resume and --allow-missing"),
        (["--follow", "--device", "cuda"], "--device cuda is for a dump that is measured in one go"),
        (["--resume", "state", "--device", "cuda"], "The device cuda is for a dump that is measured in one go"),
        (["--follow", "--resume", "state"], "leave out --engine, --resume and --allow-missing"),
    ],
)
def test_options_that_do_not_fit(tmp_path, capsys, words, message):
    assert run(["analyze", str(tmp_path), *words]) == 2
    assert message in capsys.readouterr().err


def test_nothing_comes(tmp_path, capsys):
    assert run(["analyze", "--follow", str(tmp_path), "--idle-timeout", "0"]) == 3
    assert f"{tmp_path}: no finished file of rollouts has appeared." in capsys.readouterr().err


def test_a_terminal_shows_the_report_and_ends_with_it(tmp_path, steps):
    pty = pytest.importorskip("pty")
    put(steps[0], tmp_path)
    main, side = pty.openpty()
    command = [sys.executable, "-m", "iscope", "analyze", "--follow", "--idle-timeout", "0.5", str(tmp_path)]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=side, stderr=subprocess.PIPE)
    os.close(side)
    shown = b""
    try:
        while part := os.read(main, 4096):
            shown += part
    except OSError:  # the other side has closed
        pass
    process.communicate(timeout=60)
    os.close(main)
    screen, _, after = shown.decode().partition("\x1b[?1049l")
    assert process.returncode == 0
    assert "\x1b[?1049h" in screen
    assert "following; 1 file; Ctrl-C ends with the report" in screen
    assert screen.count("VERDICT") == after.count("VERDICT") == 1
