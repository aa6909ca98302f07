"""Full disks, files that change while they are read, and interruptions: what is said, and that nothing half is left."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iscope.cli.app import run
from iscope.dump import open_dump, units
from iscope.engines import local
from iscope.errors import DataError
from iscope.ledger.plan import Plan
from tests.engines.dumps import frame, write

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _every_row_group_is_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "TOKENS", 1)


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write(tmp_path_factory.mktemp("full") / "run", frames=2, rollouts=60))


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Let no file grow beyond so many bytes: to a program it is what a full disk is, a write that fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["analyze", "DUMP", "-o", "a.html"], "-o {folder}/a.html: cannot write it: File too large."),
        (["analyze", "DUMP", "-q", "--ledger", "a"], "a: cannot write the ledger: File too large."),
        (["map", "DUMP", "--shard", "1/1", "-o", "a"], "{folder}/a: cannot write the ledger: File too large."),
        (["analyze", "DUMP", "-q", "--resume", "state"], ".part: cannot write the ledger: File too large."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_full_disk(dump, tmp_path, monkeypatch, capfd, words, message):
    monkeypatch.chdir(tmp_path)
    with files_up_to(2**14):
        assert run([dump if word == "DUMP" else word for word in words]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message.format(folder=tmp_path) in err
    left = sorted(str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*"))
    assert left == ([] if "state" not in words else ["state", "state/lock", "state/state.json"])


def test_a_disk_without_room_for_anything(dump, tmp_path, capsys):
    with files_up_to(10):
        assert run(["analyze", dump, "--resume", str(tmp_path / "state")]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"iscope: error: --resume {tmp_path / 'state'}: cannot write there: File too large.\n")
    assert [file.name for file in (tmp_path / "state").iterdir()] == ["lock"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("words", [[], ["--format", "json"]], ids=["terminal", "json"])
def test_a_standard_output_without_room(dump, words):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "iscope", "analyze", dump, *words],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    said = "iscope: error: the standard output cannot be written: No space left on device.\n"
    assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(
    "words", ["recipes", "recipes --format json", "recipes icepop", "explain IS001", "--help"], ids=lambda words: words
)
def test_a_standard_output_without_room_for_what_needs_no_dump(words):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "iscope", *words.split()]
        done = subprocess.run(
            command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    said = "iscope: error: what was to be written finds no room: No space left on device.\n"
    assert (done.returncode, done.stderr) == (2, said)


def reading(file: Path) -> Iterator[object]:
    frame(200, 20).write_parquet(file, row_group_size=10)
    batches = open_dump([file], batch_tokens=100).batches()
    next(batches)
    return batches


def cut(file: Path) -> None:
    with file.open("r+b") as content:
        content.truncate(file.stat().st_size // 2)


def replace(file: Path) -> None:
    frame(200, 20, seed=1).write_parquet(file.with_suffix(".new"), row_group_size=10)
    file.with_suffix(".new").replace(file)


def test_a_file_that_is_removed_while_it_is_read(tmp_path):
    file = tmp_path / "a.parquet"
    batches = reading(file)
    file.unlink()
    with pytest.raises(
        DataError, match=r"a\.parquet: the file cannot be reached any more \(No such file or directory\)"
    ):
        list(batches)


@pytest.mark.parametrize("change", [cut, replace])
def test_a_file_that_changes_while_it_is_read(tmp_path, change):
    file = tmp_path / "a.parquet"
    batches = reading(file)
    change(file)
    with pytest.raises(
        DataError, match=r"a\.parquet: the file was replaced or changed while it was being read; run this"
    ):
        list(batches)


def test_a_file_of_the_same_size_written_anew_is_noticed(tmp_path):
    file = tmp_path / "a.parquet"
    batches = reading(file)
    file.write_bytes(file.read_bytes())
    with pytest.raises(DataError, match="the file was replaced or changed while it was being read"):
        list(batches)


def test_an_unchanged_file_is_read_to_its_end(tmp_path):
    assert sum(len(batch) for batch in reading(tmp_path / "a.parquet")) > 100


def test_a_changed_file_ends_a_command_with_the_exit_code_of_data(tmp_path, capfd, monkeypatch):
    file = tmp_path / "a.parquet"
    frame(200, 20).write_parquet(file, row_group_size=10)
    opened = local.run

    def changing(*arguments, **options):
        cut(file)
        return opened(*arguments, **options)

    monkeypatch.setattr(local, "run", changing)
    assert run(["analyze", str(file), "-o", str(tmp_path / "a.md")]) == 3
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"iscope: error: {file}: " in err
    assert not (tmp_path / "a.md").exists()


def test_an_interrupted_pass_does_not_go_on_to_its_end(dump):
    batch = next(open_dump([dump]).batches())
    taken, main = [], threading.main_thread().ident

    def batches():
        for number in range(1000):
            taken.append(number)
            yield batch

    sent = []

    def interrupt(rollouts: int, tokens: int) -> None:
        if len(taken) >= 5 and not sent:
            sent.append(1)
            signal.pthread_kill(main, signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        local.run(batches(), Plan(()), interrupt)
    assert len(taken) < 100
