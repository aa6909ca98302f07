"""Rows of a ledger that do not fit into the memory meant for them: the same report, and nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.analyze import STATUS
from iscope.analysis.report import build_report
from iscope.dump import open_dump
from iscope.engines import local
from iscope.errors import DataError, UsageError
from iscope.ledger import collected, store
from iscope.ledger.ledger import Ledger, merged
from iscope.ledger.plan import Plan
from iscope.ledger.run import Run
from iscope.recipes.grammar import parse
from tests.rollout_factory import rollouts, table_of

RECIPES = ("none", "trl/token_mask:0.5,2", "trl/sequence_mask", "verl/rollout_is:token,2,batch_normalize=true")
PLAN = Plan(tuple(parse(recipe) for recipe in RECIPES))
few = settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Temporary files of a folder that is looked at afterwards."""
    found = tmp_path / "temporary"
    found.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(found))
    yield found
    assert list(found.iterdir()) == []


def ledger_of(table: pl.DataFrame, held: int, batch_tokens: int = 9) -> Ledger:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collected, "HELD", held)
        return local.run(open_dump([table], batch_tokens=batch_tokens).batches(), PLAN)


def same(one: Ledger, other: Ledger, *, report: bool = True) -> None:
    assert one.rows.equals(other.rows)
    assert one.trained.equals(other.trained)
    if report:
        assert build_report(one, by=["step"]).to_dict() == build_report(other, by=["step"]).to_dict()


def drawn_table(count: int, first: int = 0) -> pl.DataFrame:
    """Rollouts of few different contents, so that the order is told by the last of the keys."""
    return pl.DataFrame(
        {
            "rollout_id": [f"r{index:03}" for index in range(first, first + count)],
            "group_id": [None if index % 5 == 0 else f"g{index % 7}" for index in range(count)],
            "step": [index % 3 for index in range(count)],
            "trainer_logprobs": [
                [-1.0 - index % 2, float("nan") if index % 11 == 0 else -2.0] for index in range(count)
            ],
            "inference_logprobs": [[-1.25, -2.0]] * count,
            "advantage": [[-1.0, 0.0, 0.5][index % 3] for index in range(count)],
        },
        schema_overrides={"trainer_logprobs": pl.List(pl.Float32), "inference_logprobs": pl.List(pl.Float32)},
    )


@few
@given(drawn=rollouts(min_size=1, unusable=True), held=st.sampled_from([1, 3000, 10**6]))
def test_a_spilled_ledger_is_the_same(drawn, held):
    table = table_of(drawn)
    same(ledger_of(table, 10**9), ledger_of(table, held))


def test_it_is_in_files_and_saved_byte_for_byte_alike(tmp_path):
    table = drawn_table(60)
    held, spilled = ledger_of(table, 10**9), ledger_of(table, 1)
    assert held.rows.estimated_size() > 0
    assert spilled.rows.estimated_size() == spilled.trained.estimated_size() == 0
    assert all(isinstance(piece, Run) for rows in (spilled.rows, spilled.trained) for piece in rows.pieces)
    assert spilled.trained.height == 6
    for name, ledger in (("held", held), ("spilled", spilled)):
        store.save(ledger, tmp_path / name)
    assert (tmp_path / "held").read_bytes() == (tmp_path / "spilled").read_bytes()


def test_rows_go_to_files_sooner_once_some_are_there(monkeypatch):
    spilled = []
    spill = collected.RowsBuilder.spill
    monkeypatch.setattr(collected.RowsBuilder, "spill", lambda rows: (spilled.append(rows.held), spill(rows)))
    monkeypatch.setattr(collected, "HELD_BESIDE_FILES", 5_000)
    ledger_of(drawn_table(400), held=40_000)
    first, *others = [held for held in spilled if held > 5_000]
    assert first > 30_000  # of the two kinds of rows the larger part
    assert len(others) > 3
    assert max(others) < 15_000


TABLES = [drawn_table(12, 12 * index) for index in range(4)]


@pytest.mark.parametrize(("held", "runs"), [(1, 64), (10**9, 64), (10**9, 1)])
def test_merging_what_is_held_and_what_is_not(monkeypatch, held, runs):
    parts = [ledger_of(TABLES[place], 1 if place % 2 else 10**9) for place in (2, 1, 3, 0)]
    whole = ledger_of(pl.concat(TABLES), 10**9)
    monkeypatch.setattr(collected, "HELD", held)
    monkeypatch.setattr(collected, "_RUNS", runs)
    found = merged([merged(parts[:3]), parts[3]])
    same(whole, merged(parts), report=False)
    same(whole, found)


def test_columns_that_only_some_runs_have_and_types_that_differ():
    first = drawn_table(6).with_columns(env=pl.lit(1))
    second = drawn_table(6, 6).with_columns(env=pl.lit("two"))
    third = drawn_table(6, 12).drop("step")
    batches = [batch for table in (first, second, third) for batch in open_dump([table]).batches()]
    plan = Plan(PLAN.recipes, carry=("env",))

    def of(held: int) -> Ledger:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(collected, "HELD", held)
            return local.run(batches, plan)

    held, spilled = of(10**9), of(1)
    assert spilled.rows["env"].dtype == pl.String
    assert sorted(held.rows.columns) == sorted(spilled.rows.columns)
    for name in held.rows.columns:
        assert held.rows[name].equals(spilled.rows[name])


def test_a_saved_ledger_is_read_from_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_LOADED", 0)
    monkeypatch.setattr(store, "_BLOCK", 1)  # each column in a table of its own
    ledger, file = ledger_of(drawn_table(60), 10**9), tmp_path / "l"
    store.save(ledger, file)
    assert sum(name.startswith("rows.") for name in zipfile.ZipFile(file).namelist()) == len(ledger.rows.columns)
    again = store.load(file)
    assert again.rows.estimated_size() == 0
    file.unlink()
    store.save(ledger_of(drawn_table(3), 10**9), file)  # another file under its name
    same(ledger, again)
    same(merged([ledger_of(drawn_table(9, 60), 10**9), again]), merged([ledger, ledger_of(drawn_table(9, 60), 1)]))


def test_a_damaged_ledger_is_refused_when_it_is_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_LOADED", 0)
    file = tmp_path / "l"
    store.save(ledger_of(drawn_table(60), 10**9), file)
    content = bytearray(file.read_bytes())
    content[content.index(b"PAR1") + 40] ^= 255
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"l cannot be read as a ledger: Bad CRC-32 for file 'rows.0.parquet'"):
        store.load(file)


def test_a_file_that_is_cut_while_it_is_read_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_LOADED", 0)
    file = tmp_path / "l"
    store.save(ledger_of(drawn_table(60), 10**9), file)
    rows = store.load(file).rows
    os.truncate(file, 200)
    with pytest.raises(DataError, match=r"l: the rows of the ledger in it cannot be read"):
        rows.to_frame()


def test_a_full_disk_is_one_sentence(monkeypatch, folder):
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: open("/dev/full", "w+b"))  # noqa: SIM115
    with pytest.raises(UsageError, match=rf"^{folder}: cannot keep the rows .*No space left on device.*set TMPDIR"):
        ledger_of(drawn_table(60), 1)


def test_nothing_is_left_after_an_error(folder):
    def broken():
        yield from open_dump([drawn_table(30)], batch_tokens=4).batches()
        assert len(os.listdir(folder)) == 0
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collected, "HELD", 1)
        with pytest.raises(KeyboardInterrupt):
            local.run(broken(), PLAN)


@pytest.mark.skipif(not STATUS.exists(), reason="only Linux tells the peak of this process alone")
def test_memory_does_not_grow_with_the_rows(tmp_path):
    """The rows are 170 MiB, and with what else a report takes the peak is beyond 500 MiB where they are held."""
    dump = short_rollouts(200_000, tmp_path / "dump.parquet")
    script = Path(__file__).with_name("bounded_process.py")
    done = subprocess.run(
        [sys.executable, script, dump, str(2**24)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert 100 < float(done.stdout) < 400


def short_rollouts(count: int, path: Path) -> Path:
    """Write rollouts of two tokens."""
    random = np.random.default_rng(0)
    inference = -random.exponential(0.5, (count, 2)).astype(np.float32)
    trainer = np.minimum(inference + random.normal(0, 0.05, (count, 2)).astype(np.float32), 0)
    columns = {
        "rollout_id": np.arange(count),
        "inference_logprobs": pl.Series(inference).arr.to_list(),
        "trainer_logprobs": pl.Series(trainer).arr.to_list(),
        "advantage": random.normal(size=count).astype(np.float32),
    }
    pl.DataFrame(columns).write_parquet(path, row_group_size=2**14)
    return path
