from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable

import polars as pl
import pytest

import iscope
from iscope.errors import DataError, UsageError
from tests.following.steps import QUICK, put, text_of


@pytest.fixture
def counted(monkeypatch) -> Callable[[], list[str]]:
    """The files whose tokens have been read."""
    from iscope.dump.parquet import ParquetSource

    found: list[str] = []
    read = ParquetSource.read

    def noted(self, columns, *rest, **more):
        if "trainer_logprobs" in columns or "inference_logprobs" in columns:
            found.append(os.path.basename(self.name))
        return read(self, columns, *rest, **more)

    monkeypatch.setattr(ParquetSource, "read", noted)
    return lambda: found


def test_the_last_report_is_that_of_analyze(tmp_path, steps, counted):
    reports = iscope.follow(tmp_path, **QUICK, until=5)
    seen = []
    for index, step in enumerate(steps):
        put(step, tmp_path)
        seen.append(next(reports))
        assert seen[-1].coverage.files == index + 1
    assert list(reports) == []
    assert sorted(counted()) == [step.name for step in steps]
    assert text_of(seen[-1]) == text_of(iscope.analyze(tmp_path))
    assert [len(report.breakdowns.get("step", [])) for report in seen] == [0, 2, 3, 4, 5, 6]


def test_files_that_are_there_are_measured_at_once(tmp_path, steps):
    for step in steps:
        put(step, tmp_path)
    (report,) = iscope.follow(tmp_path, **QUICK, until=5)
    assert text_of(report) == text_of(iscope.analyze(tmp_path))


def test_a_file_is_waited_for_until_it_is_quiet(tmp_path, steps):
    put(steps[0], tmp_path)
    content = steps[1].read_bytes()
    growing = tmp_path / steps[1].name

    def write():
        with growing.open("wb") as out:
            for start in range(0, len(content), len(content) // 8):
                out.write(content[start : start + len(content) // 8])
                out.flush()
                time.sleep(0.1)

    writer = threading.Thread(target=write)
    writer.start()
    reports = list(iscope.follow(tmp_path, quiet_for=0.3, every=0.05, until=1))
    writer.join()
    assert text_of(reports[-1]) == text_of(iscope.analyze(tmp_path))


def test_a_marker_is_taken_at_its_word(tmp_path):
    line = {"trainer_logprobs": [-1.0, -0.5], "inference_logprobs": [-1.1, -0.5], "loss_mask": [True, True]}
    exports = tmp_path / "token_exports"
    reports = iscope.follow(exports, quiet_for=1e9, every=0.02, idle_timeout=0.1)
    for step in (1, 2):
        folder = exports / f"step_{step}"
        folder.mkdir(parents=True)
        (folder / "rank_0.jsonl").write_text(json.dumps(line | {"step": step, "rollout_id": f"{step}"}) + "\n")
    (exports / "step_1" / "STABLE").touch()
    assert next(reports).coverage.files == 1
    (exports / "step_2" / "STABLE").touch()
    report = next(reports)
    assert report.coverage.files == 2
    assert list(reports) == []
    assert text_of(report) == text_of(iscope.analyze(exports))


def test_what_cannot_be_read_is_said_once_and_followed_on(tmp_path, steps):
    said: list[str] = []
    put(steps[0], tmp_path)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1" + bytes(100))
    reports = iscope.follow(tmp_path, **QUICK, until=2, say=said.append)
    first = next(reports)
    assert [sentence.partition(" (")[0] for sentence in said] == [
        f"left out: {tmp_path / 'broken.parquet'}: cannot be read as Parquet"
    ]
    assert f"1 file could not be used, left out: {tmp_path / 'broken.parquet'}." in first.assumptions
    put(steps[1], tmp_path)
    next(reports)
    assert len(said) == 1
    put(steps[2], tmp_path, "broken.parquet")
    last = next(reports)
    assert list(reports) == []
    assert len(said) == 1
    assert text_of(last) == text_of(iscope.analyze(tmp_path))


def test_many_files_that_cannot_be_read_are_said_together(tmp_path, steps):
    said: list[str] = []
    put(steps[0], tmp_path)
    for name in "abcde":
        (tmp_path / f"{name}.parquet").write_bytes(b"PAR1" + bytes(100))
    (report,) = iscope.follow(tmp_path, **QUICK, idle_timeout=0.1, say=said.append)
    assert report.coverage.files == 1
    assert len(said) == 4
    assert said[-1] == "left out: 2 files more."


def test_a_file_that_goes_while_the_others_are_read_again(tmp_path, steps):
    said: list[str] = []
    for step in steps[:3]:
        put(step, tmp_path)
    reports = iscope.follow(tmp_path, **QUICK, idle_timeout=0.2, batch=7, recipes=["none"], say=said.append)
    next(reports)
    (tmp_path / steps[1].name).unlink()
    put(steps[3], tmp_path)
    last = next(reports)
    assert list(reports) == []
    assert said == [
        f"{tmp_path / steps[1].name} has gone; what was measured of it stays in the report.",
        "the dump had to be read again, without 1 file of it that had gone before.",
    ]
    assert text_of(last) == text_of(iscope.analyze(tmp_path, batch=7, recipes=["none"]))


def test_files_that_do_not_fit_together(tmp_path, steps):
    said: list[str] = []
    put(steps[0], tmp_path)
    reports = iscope.follow(tmp_path, **QUICK, until=3, say=said.append)
    next(reports)
    pl.read_parquet(steps[1]).drop("loss_mask").write_parquet(tmp_path / "b.parquet")
    for step in steps[2:4]:
        put(step, tmp_path)
    last = next(reports)
    assert ["there is no loss_mask" in sentence for sentence in said] == [True]
    assert last.coverage.files == 3
    with pytest.raises(DataError, match="there is no loss_mask"):
        list(iscope.follow(tmp_path, **QUICK, until=3, strict=True))


def test_a_file_that_goes_stays_in_the_report(tmp_path, steps, counted):
    said: list[str] = []
    gone = put(steps[0], tmp_path)
    reports = iscope.follow(tmp_path, **QUICK, until=1, say=said.append)
    next(reports)
    gone.unlink()
    put(steps[1], tmp_path)
    last = next(reports)
    assert list(reports) == []
    assert said == [f"{gone} has gone; what was measured of it stays in the report."]
    put(steps[0], tmp_path)
    again = iscope.analyze(tmp_path)
    assert text_of(last, without="worst") == text_of(
        again, without="worst"
    )  # token ids of a file that has gone are gone
    assert len(last.parts["worst"]["rollouts"]) == len(again.parts["worst"]["rollouts"])


def test_a_file_that_changes_is_read_again(tmp_path, steps):
    said: list[str] = []
    put(steps[0], tmp_path, "a.parquet")
    reports = iscope.follow(tmp_path, **QUICK, until=3, say=said.append)
    next(reports)
    put(steps[1], tmp_path, "a.parquet")
    put(steps[3], tmp_path)
    last = next(reports)
    assert said == [f"{tmp_path / 'a.parquet'} has changed since it was read; the dump is read again."]
    assert text_of(last) == text_of(iscope.analyze(tmp_path))


@pytest.mark.parametrize(
    "options",
    [
        {"batch": 50, "recipes": ["trl/token_mask"]},
        {"batch": "step", "recipes": ["trl/token_mask"]},
        {"recipes": ["areal/m2po"], "batch": "step"},
        {"where": "step <> 1", "by": ["length"]},
    ],
)
def test_options(tmp_path, steps, options):
    reports = iscope.follow(tmp_path, **QUICK, **options, until=3)
    for step in steps[:4]:
        put(step, tmp_path)
        last = next(reports)
    assert list(reports) == []
    assert text_of(last) == text_of(iscope.analyze(tmp_path, **options))


def test_a_type_that_changes(tmp_path, steps):
    put(steps[0], tmp_path)
    reports = iscope.follow(tmp_path, **QUICK, idle_timeout=0.2)
    next(reports)
    pl.read_parquet(steps[1]).with_columns(pl.col("step").cast(pl.String)).write_parquet(tmp_path / "b.parquet")
    last = next(reports)
    assert list(reports) == []
    assert text_of(last) == text_of(iscope.analyze(tmp_path))


def test_the_ledger_is_kept(tmp_path, steps):
    put(steps[0], tmp_path / "run")
    (tmp_path / "again").mkdir()
    reports = iscope.follow(tmp_path / "run", **QUICK, until=1, ledger=tmp_path / "ledger")
    next(reports)
    first = (tmp_path / "ledger").read_bytes()
    put(steps[1], tmp_path / "run")
    next(reports)
    iscope.analyze(tmp_path / "run", ledger=tmp_path / "whole")
    assert first != (tmp_path / "ledger").read_bytes() == (tmp_path / "whole").read_bytes()


def test_nothing_comes(tmp_path):
    with pytest.raises(DataError, match="no finished file of rollouts has appeared"):
        list(iscope.follow(tmp_path, **QUICK, idle_timeout=0.1))
    with pytest.raises(DataError, match="no such file or folder"):
        list(iscope.follow(tmp_path / "nowhere", **QUICK, idle_timeout=0.1))
    (tmp_path / "broken.parquet").write_bytes(b"PAR1" + bytes(100))
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        list(iscope.follow(tmp_path, **QUICK, idle_timeout=0.1))


def test_data_in_memory(steps):
    with pytest.raises(UsageError, match="what is in memory does not grow"):
        next(iscope.follow(pl.read_parquet(steps[0])))
    with pytest.raises(UsageError, match="No dump was given"):
        next(iscope.follow())


@pytest.mark.parametrize("name", ["quiet_for", "idle_timeout", "every"])
@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_seconds_that_are_none(tmp_path, name, seconds):
    with pytest.raises(UsageError, match=f"{name} must be a number of seconds from 0, not {seconds}"):
        next(iscope.follow(tmp_path, **{name: seconds}))


def test_a_file_that_changes_while_it_is_read_is_looked_at_again(tmp_path, steps, monkeypatch):
    from iscope.following.rounds import Following

    run = Following._run
    target = put(steps[1], tmp_path, "a.parquet")
    overtaken = []

    def overtaking(self, plan, part):
        if not overtaken:
            overtaken.append(put(steps[0], tmp_path, "a.parquet"))
            raise DataError(f"{target}: the file was replaced.")
        return run(self, plan, part)

    monkeypatch.setattr(Following, "_run", overtaking)
    (report,) = iscope.follow(tmp_path, **QUICK, until=0)
    assert overtaken == [target]
    assert text_of(report) == text_of(iscope.analyze(tmp_path))
