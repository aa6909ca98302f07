"""A run that goes on where another one ended, however it ended."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import iscope
from iscope.dump import units
from iscope.errors import DataError, UsageError
from iscope.ledger import part as parts
from iscope.recipes.model import Pair
from tests.engines.dumps import frame, write

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ["none", "trl/token_mask", "trl/sequence_mask"]
SETTINGS = {"recipes": RECIPES, "by": ["env"]}
WORDS = [*(word for recipe in RECIPES for word in ("--recipe", recipe)), "--by", "env", "--quiet"]
# The command line with every row group as a unit.
COMMAND = "from iscope.dump import units; units.TOKENS = 1; from iscope.cli.app import main; main()"


@pytest.fixture(autouse=True)
def _every_row_group_is_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "TOKENS", 1)


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("resume") / "run")


@pytest.fixture(scope="module")
def undisturbed(dump: Path) -> bytes:
    return as_bytes(iscope.analyze(dump, **SETTINGS))


def as_bytes(report: iscope.Report) -> bytes:
    return json.dumps(report.to_dict()).encode()


class StoppedError(Exception):
    """What a test stops a run with."""


def stop_after(batches: int):
    left = [batches]

    def progress(rollouts: int, tokens: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise StoppedError

    return progress


@pytest.mark.parametrize("every", [0, 0.001, 30])
def test_with_a_folder_the_report_is_the_same(dump, undisturbed, tmp_path, every):
    for _ in range(2):
        report = iscope.analyze(dump, **SETTINGS, resume=tmp_path / "state", resume_every=every)
        assert as_bytes(report) == undisturbed


def test_what_is_done_is_not_done_again(dump, undisturbed, tmp_path):
    state = tmp_path / "state"
    with pytest.raises(StoppedError):
        iscope.analyze(dump, **SETTINGS, resume=state, resume_every=0, progress=stop_after(10))
    assert len(list(state.glob("*.part"))) == 10
    done = []
    report = iscope.analyze(
        dump, **SETTINGS, resume=state, resume_every=0, progress=lambda rollouts, tokens: done.append(rollouts)
    )
    assert as_bytes(report) == undisturbed
    assert done[0] == 200
    assert len(done) == 1 + 26
    assert len(list(state.glob("*.part"))) == 36


def test_parts_grow_to_the_time_that_they_are_to_take(dump, tmp_path):
    iscope.analyze(dump, **SETTINGS, resume=tmp_path / "state", resume_every=60)
    (file,) = (tmp_path / "state").glob("*.part")
    assert len(parts.load(file).units) == 36


def test_another_plan_is_refused(dump, tmp_path):
    iscope.analyze(dump, **SETTINGS, resume=tmp_path / "state")
    with pytest.raises(UsageError, match=r"--resume .*state: its parts were measured with another plan .* than asked"):
        iscope.analyze(dump, recipes=["none"], resume=tmp_path / "state")
    with pytest.raises(UsageError, match="measured on another dump, or on one that was read in another way"):
        iscope.analyze(dump, **SETTINGS, where="step = 1", resume=tmp_path / "state")
    with pytest.raises(UsageError, match="measured on another dump"):
        iscope.analyze(dump / "step_0.parquet", **SETTINGS, resume=tmp_path / "state")


def test_a_file_that_changed_is_named(tmp_path):
    dump = write(tmp_path / "run", frames=2, rollouts=40)
    iscope.analyze(dump, resume=tmp_path / "state")
    file = dump / "step_1.parquet"
    content = file.read_bytes()
    file.write_bytes(content)
    os.utime(file, ns=(1, 1))
    with pytest.raises(UsageError, match=r"state: .*step_1\.parquet has changed since its parts were measured; name a"):
        iscope.analyze(dump, resume=tmp_path / "state")


def test_a_folder_that_cannot_be_used(dump, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--resume .*file: this is a file; name a folder"):
        iscope.analyze(dump, resume=tmp_path / "file")
    with pytest.raises(UsageError, match=r"the folder holds other things \(step_0\.parquet\); name a new one"):
        iscope.analyze(dump, resume=dump)
    with pytest.raises(UsageError, match=r"cannot make the folder: No such file or directory\."):
        iscope.analyze(dump, resume=tmp_path / "no" / "state")
    (tmp_path / "odd" / "lock").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"--resume .*odd: cannot write there: Is a directory\."):
        iscope.analyze(dump, resume=tmp_path / "odd")
    with pytest.raises(UsageError, match="resume_every must be a number of seconds from 0, not -1"):
        iscope.analyze(dump, resume=tmp_path / "state", resume_every=-1)
    assert not (tmp_path / "state").exists()


def test_damage_in_the_folder_is_named(dump, tmp_path):
    state = tmp_path / "state"
    iscope.analyze(dump, resume=state)
    (part,) = state.glob("*.part")
    content = part.read_bytes()
    part.write_bytes(content[:1000])
    with pytest.raises(DataError, match=rf"{part.name}: this is no part .* or it is damaged"):
        iscope.analyze(dump, resume=state)
    part.write_bytes(content)
    about = (state / "state.json").read_text()
    (state / "state.json").write_text(about[:20])
    with pytest.raises(DataError, match=r"state\.json: cannot be read .*; name a new folder"):
        iscope.analyze(dump, resume=state)
    (state / "state.json").unlink()
    with pytest.raises(DataError, match=r"its state\.json is gone; name a new folder"):
        iscope.analyze(dump, resume=state)


def test_two_processes_do_not_share_a_folder(dump, tmp_path):
    def inner(rollouts: int, tokens: int) -> None:
        iscope.analyze(dump, **SETTINGS, resume=tmp_path / "state")

    with pytest.raises(UsageError, match=r"state: another iscope is working with this folder"):
        iscope.analyze(dump, **SETTINGS, resume=tmp_path / "state", progress=inner)
    iscope.analyze(dump, **SETTINGS, resume=tmp_path / "state")


def test_state_is_no_part_to_merge(dump, tmp_path):
    iscope.analyze(dump, resume=tmp_path / "state")
    with pytest.raises(
        DataError, match="this is the state of a command that can be resumed, and no part of iscope map"
    ):
        iscope.merge(*(tmp_path / "state").glob("*.part"))


def test_what_needs_the_whole_dump_cannot_be_resumed(dump, tmp_path):
    with pytest.raises(UsageError, match=r"areal/m2po.* cannot be measured in parts"):
        iscope.analyze(dump, recipes=["areal/m2po"], resume=tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_fitted_bounds_come_from_the_whole_dump(dump, tmp_path):
    settings = {"recipes": ["geometric_mask"], "fit": 0.9}
    whole = iscope.analyze(dump, **settings)
    for _ in range(2):
        assert as_bytes(iscope.analyze(dump, **settings, resume=tmp_path / "state")) == as_bytes(whole)


def test_missing_units_are_left_out_where_that_is_allowed(tmp_path):
    dump = write(tmp_path / "run", frames=2, rollouts=80)
    sound = iscope.analyze(dump / "step_0.parquet", **SETTINGS)
    damage(dump / "step_1.parquet")
    with pytest.raises(DataError, match=r"step_1\.parquet: cannot be read as Parquet"):
        iscope.analyze(dump, **SETTINGS)
    report = iscope.analyze(dump, **SETTINGS, allow_missing=True)
    assert report.coverage.notes["missing_units"] == 4
    assert report.coverage.notes["missing_rollouts"] == 80
    (said,) = [said for said in report.assumptions if "MISSING" in said]
    assert "4 of 8 units of the dump (80 of 160 rollouts) are MISSING from every figure: " in said
    assert "step_1.parquet rows 0 to 19 (" in said
    assert said.endswith(" and 1 more.")
    assert report.mismatch == sound.mismatch
    with pytest.raises(DataError, match=r"step_1\.parquet: cannot be read"):
        iscope.analyze(dump / "step_1.parquet", **SETTINGS, allow_missing=True)


def test_the_first_file_may_be_the_one_that_is_left_out(tmp_path):
    dump = write(tmp_path / "run", frames=2, rollouts=80)
    damage(dump / "step_0.parquet")
    report = iscope.analyze(dump, **SETTINGS, allow_missing=True)
    assert report.mismatch == iscope.analyze(dump / "step_1.parquet", **SETTINGS).mismatch


def test_what_is_wrong_with_a_recipe_is_no_reason_to_leave_rows_out(dump):
    @iscope.recipe("broken/some")
    def broken(view):
        return view.weight(Pair.TRAINER_INFERENCE) if view.segments.rows <= 30 else None

    with pytest.raises(UsageError, match="broken"):
        iscope.analyze(dump, recipes=[broken], allow_missing=True)


def damage(file: Path) -> None:
    """Overwrite all of a Parquet file but its footer."""
    content = file.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    file.write_bytes(b"PAR1" + b"\xff" * (len(content) - footer - 4) + content[-footer:])


def test_killed_at_twenty_moments_and_resumed(dump, undisturbed, tmp_path):
    state, output = tmp_path / "state", tmp_path / "out"
    output.mkdir()
    words = ["analyze", str(dump), *WORDS, "--resume", str(state), "--resume-every", "0", "--force"]
    words += ["-o", str(output / "report.json")]
    draw = random.Random(12)
    moments = [(draw.randint(0, 3), draw.uniform(0, 0.05)) for _ in range(15)]
    moments += [(0, draw.uniform(0, 0.5)) for _ in range(5)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.killed", str(state), json.dumps(moments), *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    ends = json.loads(done.stdout)
    assert ends.count(-signal.SIGKILL) >= 10
    assert set(ends) <= {-signal.SIGKILL, 0}
    assert len(list(state.glob("*.part"))) >= 10
    left = [file.read_bytes() for file in output.glob("report.json")]
    report = iscope.analyze(dump, **SETTINGS, resume=state, resume_every=0)
    assert as_bytes(report) == undisturbed
    assert all(json.dumps(json.loads(text)).encode() == undisturbed for text in left)
    assert not list(state.glob(".iscope-*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_process_at_once_and_loses_nothing(tmp_path, number):
    dump, state = tmp_path / "long.parquet", tmp_path / "state"
    frame(4000, 10).write_parquet(dump, row_group_size=10)
    words = [
        "analyze",
        str(dump),
        *WORDS,
        "--resume",
        str(state),
        "--resume-every",
        "0",
        "-o",
        str(tmp_path / "a.json"),
    ]
    process = subprocess.Popen([sys.executable, "-c", COMMAND, *words], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while len(list(state.glob("*.part"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (130, "iscope: error: interrupted\n")
    kept = len(list(state.glob("*.part")))
    assert 3 <= kept < 400
    assert sorted(file.name for file in tmp_path.iterdir()) == ["long.parquet", "state"]
    assert not list(state.glob(".iscope-*"))
