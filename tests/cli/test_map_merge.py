"""iscope map and iscope merge as they are run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from iscope.cli.app import run
from iscope.dump import units
from tests.engines.dumps import write

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ["--recipe", "trl/token_mask", "--recipe", "none", "--by", "env"]


@pytest.fixture(autouse=True)
def _every_row_group_is_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "TOKENS", 1)


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write(tmp_path_factory.mktemp("map") / "run", frames=2, rollouts=60))


@pytest.fixture
def parts(dump: str, tmp_path: Path) -> list[str]:
    files = [str(tmp_path / f"{index}.part") for index in (1, 2, 3)]
    for index, file in enumerate(files, 1):
        assert run(["map", dump, "--shard", f"{index}/3", "-o", file, *RECIPES]) == 0
    return files


def test_merge_writes_what_analyze_writes(dump, parts, tmp_path, capfd):
    for name in ("report.json", "report.md", "report.html"):
        assert run(["analyze", dump, *RECIPES, "--quiet", "-o", str(tmp_path / name)]) == 0
        assert run(["merge", *reversed(parts), "--quiet", "-o", str(tmp_path / f"merged-{name}")]) == 0
        assert (tmp_path / f"merged-{name}").read_bytes() == (tmp_path / name).read_bytes()
    capfd.readouterr()
    assert run(["analyze", dump, *RECIPES]) == 0
    page = capfd.readouterr().out
    assert run(["merge", *parts]) == 0
    assert capfd.readouterr().out == page


def test_merge_keeps_the_ledger(dump, parts, tmp_path):
    assert run(["analyze", dump, *RECIPES, "--quiet", "--ledger", str(tmp_path / "a")]) == 0
    assert run(["merge", *parts, "--quiet", "--ledger", str(tmp_path / "b")]) == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_map_says_nothing_and_its_part_can_be_read_like_other_files(dump, tmp_path, capfd):
    assert run(["map", dump, "--shard", "1/2", "-o", str(tmp_path / "a")]) == 0
    assert capfd.readouterr() == ("", "")
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o666 & ~mask


def test_missing_and_doubled_parts(parts, capfd):
    assert run(["merge", *parts[:2]]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(
        "iscope: error: 2 of 6 units of the dump are in no part, those of shard 3 of 3; name all parts"
    )
    assert run(["merge", *parts, parts[0], "--format", "json"]) == 2
    out, err = capfd.readouterr()
    assert '"kind": "usage"' in out
    assert err.endswith("too; name each part once.\n")
    assert run(["merge", *parts[:2], "--allow-missing"]) == 0
    assert "MISSING" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["map"], 2, "There is nothing to analyze: name a DUMP"),
        (["map", "DUMP", "-o", "a"], 2, "--shard takes I/N with I from 1 to N, such as 3/8."),
        (["map", "DUMP", "--shard", "3/2", "-o", "a"], 2, "such as 3/8, not '3/2'."),
        (["map", "DUMP", "--shard", "x", "-o", "a"], 2, "such as 3/8, not 'x'."),
        (["map", "DUMP", "--shard", "1/2"], 2, "iscope map needs -o FILE"),
        (["map", "DUMP", "--shard", "1/2", "-o", "DUMP"], 2, "this is a folder; name a file in it."),
        (["map", "DUMP", "--shard", "1/2", "-o", "a", "--recipe", "nonesuch"], 2, "nonesuch"),
        (["map", "no.parquet", "--shard", "1/2", "-o", "a"], 3, "no.parquet: no such file or folder."),
        (["merge"], 2, "There is nothing to merge: name the parts that iscope map wrote."),
        (["merge", "no.part"], 3, "no.part: no such file."),
        (["merge", "no.part", "-o", "no.part"], 2, "no.part"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_refusals(dump, tmp_path, monkeypatch, capfd, words, code, message):
    monkeypatch.chdir(tmp_path)
    assert run([dump if word == "DUMP" else word for word in words]) == code
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
    assert list(tmp_path.iterdir()) == []


def test_a_part_never_replaces_the_dump_nor_a_part_that_is_merged(dump, parts, capfd):
    file = str(Path(dump) / "step_0.parquet")
    assert run(["map", file, "--shard", "1/2", "-o", file, "--force"]) == 2
    assert run(["map", dump, "--shard", "1/2", "-o", file, "--force"]) == 2
    assert run(["map", dump, "--shard", "1/3", "-o", parts[0]]) == 2
    assert run(["merge", *parts, "--ledger", parts[0], "--force"]) == 2
    said = capfd.readouterr().err.splitlines()
    assert said[0].endswith("this file is also used by the command itself; name another one.")
    assert said[1].endswith("this file is part of the dump that is read; name another one.")
    assert said[2].endswith("the file exists; add --force to overwrite it.")
    assert said[3].endswith("this file is also used by the command itself; name another one.")


def test_usage_errors_do_not_wait_for_torch():
    code = "import sys; from iscope.cli.app import run; print(run(['map']), run(['merge']), 'torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )
    assert done.stdout == "2 2 False\n"
