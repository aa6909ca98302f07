"""Several threads decode parts of a dump at the same time: nothing is lost, doubled, or different."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

from iscope.api import make_plan, measure_dump
from iscope.dump import Sides, open_dump, units
from iscope.engines import local
from iscope.engines.streams import Streams
from iscope.errors import DataError
from iscope.ledger import store
from tests.engines.dumps import frame, write

RECIPES = ("none", "trl/token_mask", "geometric_mask")


@pytest.fixture
def dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(units, "TOKENS", 500)
    return write(tmp_path / "dump")


def ids(dump) -> list[str]:
    return [name for batch in dump.batches() for name in batch.columns["rollout_id"].to_list()]


@pytest.mark.parametrize("count", [2, 3, 5, 40])
def test_parts_are_the_whole_dump(dump: Path, count: int) -> None:
    whole = open_dump([dump])
    parts = units.side_by_side(whole, count)
    assert 1 < len(parts) <= count
    assert [name for part in parts for name in ids(part)] == ids(whole)


def test_many_files_are_dealt_out_whole(tmp_path: Path) -> None:
    folder = write(tmp_path / "many", frames=17, rollouts=4)
    whole = open_dump([folder])
    parts = units.side_by_side(whole, 2)
    assert [len(part.content.parts) for part in parts] == [8, 9]
    assert [name for part in parts for name in ids(part)] == ids(whole)


def test_what_must_be_read_in_order_or_is_no_file_stays_as_one(dump: Path, tmp_path: Path) -> None:
    rows = frame(8, varied=False)
    rows.select("rollout_id", "trainer_logprobs").write_parquet(tmp_path / "trainer.parquet")
    rows.select("rollout_id", "inference_logprobs").write_parquet(tmp_path / "vllm.parquet")
    sides = Sides(trainer=(tmp_path / "trainer.parquet",), inference=(tmp_path / "vllm.parquet",), on="rollout_id")
    batch = next(open_dump([rows]).batches())
    for source in (
        open_dump([dump], strict=True),
        open_dump([rows]),
        open_dump([dump, batch]),
        open_dump([], sides=sides),
    ):
        assert units.side_by_side(source, 3) == [source]
    assert len(units.side_by_side(open_dump([dump]), 1)) == 1


@pytest.mark.parametrize("batch", ["all", "step", 7])
@pytest.mark.parametrize("where", [None, "env = 'math'"])
def test_no_bit_depends_on_how_many_decode(
    dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str | None, batch: str | int
) -> None:
    found = {}
    for cores in (1, 2, 4):
        monkeypatch.setattr(local.os, "cpu_count", lambda cores=cores: cores)
        source = open_dump([dump], where=where, batch_tokens=1000)
        store.save(measure_dump(make_plan(RECIPES, batch=batch), source), tmp_path / str(cores))
        found[cores] = (tmp_path / str(cores)).read_bytes(), source.tally
    assert found[2] == found[4] == found[1]


def test_every_batch_is_handed_out_once() -> None:
    table = pl.DataFrame({"trainer_logprobs": [[-1.0]] * 40, "inference_logprobs": [[-1.0]] * 40})
    batches = [list(open_dump([table[a : a + 10]], batch_tokens=3).batches()) for a in range(0, 40, 10)]
    streams, start = Streams(batches), threading.Barrier(3)

    def all_of(thread: int) -> list[tuple[int, slice]]:
        start.wait()
        found = []
        while (batch := streams.next(thread)) is not None:
            found.append((id(batch[0]), batch[1]))
        return found

    with ThreadPoolExecutor(3) as pool:
        taken = [one for found in pool.map(all_of, range(3)) for one in found]
    expected = []
    for part in batches:
        first = 0
        for batch in part:
            expected.append((id(batch), slice(first, first + len(batch))))
            first += len(batch)
    assert sorted(taken, key=str) == sorted(expected, key=str)


def test_a_part_that_cannot_be_read_ends_the_pass(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local.os, "cpu_count", lambda: 3)
    source = open_dump([dump])
    last = sorted(dump.glob("*.parquet"))[-1]
    damaged = bytearray(last.read_bytes())
    damaged[4:200] = bytes(196)
    last.write_bytes(damaged)
    with pytest.raises(DataError, match=last.name):
        measure_dump(make_plan(RECIPES), source)
