"""Two sides that are written by two processes."""

from __future__ import annotations

import polars as pl
import pytest

import iscope
from tests.following.steps import QUICK, text_of


@pytest.fixture(scope="module")
def sides(sample_data):
    """Both sides of a run, four parts of either; those of the engine hold rollouts that the trainer dropped."""
    folder = sample_data / "train_async"
    trainer, vllm = (pl.read_parquet(folder / name) for name in ("trainer_fp32.parquet", "vllm.parquet"))
    keys = vllm["rollout_id"].sort()
    parts = [keys[start::4] for start in range(4)]
    kept = [part[3:] for part in parts]
    return [(_of(trainer, some), _of(vllm, part)) for some, part in zip(kept, parts, strict=True)]


def _of(frame, keys):
    return frame.filter(pl.col("rollout_id").is_in(keys.implode()))


class Run:
    """Writes parts of sides, and follows both."""

    def __init__(self, folder, sides):
        self.folder, self.sides = folder, sides
        self.folders = {side: folder / side for side in ("trainer", "vllm")}

    def put(self, part, side):
        self.write(part, side, self.sides[part][side == "vllm"])

    def write(self, part, side, frame):
        frame.write_parquet(self.folder / "part")
        (self.folder / "part").replace(self.folder / side / f"{part}.parquet")

    def follow(self, **options):
        return iscope.follow(**self.folders, **QUICK, recipes=["trl/token_mask"], **options)

    def whole(self):
        return iscope.analyze(**self.folders, recipes=["trl/token_mask"])


@pytest.fixture
def run(tmp_path, sides):
    for side in ("trainer", "vllm"):
        (tmp_path / side).mkdir()

    return Run(tmp_path, sides)


def test_each_file_is_measured_once_its_counterpart_is_there(run, sides):
    reports = run.follow(idle_timeout=0.5)
    for part, first in ((0, "vllm"), (1, "trainer")):
        second = "trainer" if first == "vllm" else "vllm"
        run.put(part, first)
        run.put(part, second)
        report = next(reports)
        assert report.coverage.files == 2 * (part + 1)
    for part in (2, 3):
        run.put(part, "vllm")
    run.put(2, "trainer")
    assert next(reports).coverage.files == 6
    (last,) = reports
    assert last.coverage.files == 7
    assert last.coverage.rollouts_excluded["unmatched_inference"] == 9 + len(sides[3][1])
    assert text_of(last) == text_of(run.whole())


def test_a_rollout_that_comes_again_is_left_out_like_in_one_pass(run, sides):
    reports = run.follow(idle_timeout=0.3)
    for side in ("vllm", "trainer"):
        run.put(0, side)
    next(reports)
    for side in ("vllm", "trainer"):
        frame = pl.concat([sides[1][side == "vllm"], sides[0][side == "vllm"][:5]])
        run.write(1, side, frame)
    assert next(reports).coverage.rollouts_excluded["duplicate_key"] == 5
    for side in ("trainer", "vllm"):
        run.write(2, side, pl.concat([sides[2][side == "vllm"], sides[0][side == "vllm"][10:12]]))
    last = next(reports)
    assert list(reports) == []
    assert last.coverage.rollouts_excluded["duplicate_key"] > 5
    assert text_of(last) == text_of(run.whole())


def test_a_rollout_whose_other_side_comes_late(run, sides):
    reports = run.follow(idle_timeout=0.3)
    late = sides[0][0]
    run.put(0, "vllm")
    run.write(0, "trainer", late[:50])
    next(reports)
    run.write(9, "trainer", late[50:])
    last = next(reports)
    assert list(reports) == []
    assert text_of(last) == text_of(run.whole())


def test_one_side_alone_is_no_report(run):
    run.put(0, "vllm")
    with pytest.raises(iscope.DataError, match="no finished file of rollouts has appeared"):
        list(run.follow(idle_timeout=0.1))
