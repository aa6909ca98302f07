"""map_shard and merge: the report of the parts is that of the whole dump, and what does not fit is refused."""

from __future__ import annotations

import itertools
import json
import random
import tempfile
import zipfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import iscope
from iscope.api import make_plan, measure_dump
from iscope.dump import open_dump, units
from iscope.dump.record import Record
from iscope.engines.gather import Gathering
from iscope.engines.job import Job
from iscope.errors import DataError, UsageError
from iscope.ledger import part as parts
from iscope.ledger import store
from tests import own_cases
from tests.engines.dumps import frame, write
from tests.rollout_factory import rollouts, table_of

RECIPES = [
    "none",
    "trl/token_mask:clip_min=0.5,clip_max=2",
    "trl/sequence_mask",
    "verl/rollout_is:batch_normalize=true",
]
SETTINGS = {"recipes": RECIPES, "by": ["env", "length"]}


@pytest.fixture(autouse=True)
def _every_row_group_is_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "TOKENS", 1)


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("sharding") / "run")


def mapped(dump: Path, folder: Path, count: int, which=None, **options) -> list[Path]:
    folder.mkdir(exist_ok=True)
    files = []
    for index in which or range(1, count + 1):
        files.append(folder / f"{index}.part")
        iscope.map_shard(dump, shard=(index, count), output=files[-1], **(SETTINGS | options))
    return files


def as_bytes(report: iscope.Report) -> bytes:
    return json.dumps(report.to_dict()).encode()


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_merged_parts_give_the_report_of_the_whole_dump(dump, tmp_path, count):
    whole = iscope.analyze(dump, **SETTINGS, ledger=tmp_path / "whole.ledger")
    files = mapped(dump, tmp_path / "parts", count)
    random.Random(count).shuffle(files)
    report = iscope.merge(*files, ledger=tmp_path / "merged.ledger")
    assert as_bytes(report) == as_bytes(whole)
    assert (tmp_path / "merged.ledger").read_bytes() == (tmp_path / "whole.ledger").read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        {"where": "env = 'math' AND step >= 1"},
        {"batch": "step"},
        {"precision": "float64", "unscored": "neutral"},
        {"recipes": None},
        {"by": ["p", "group"]},
        {"recipes": None, "like": f"trl:{own_cases.DATA}/configs/trl/args.json"},
        {"recipes": None, "recipes_file": own_cases.FILE},
        {"recipes": [own_cases.mask, own_cases.rollout, own_cases.MEAN]},
    ],
    ids=["where", "step", "precision", "default", "by", "like", "file", "own"],
)
def test_settings_are_those_of_analyze(dump, tmp_path, options):
    files = mapped(dump, tmp_path / "parts", 3, **options)
    assert as_bytes(iscope.merge(*files)) == as_bytes(iscope.analyze(dump, **(SETTINGS | options)))


def test_what_only_a_report_needs_is_chosen_when_merging(dump, tmp_path):
    files = mapped(dump, tmp_path / "parts", 2)
    report = iscope.merge(*files, by=["env"], healthy_k3=0.5)
    assert as_bytes(report) == as_bytes(iscope.analyze(dump, recipes=RECIPES, by=["env"], healthy_k3=0.5)).replace(
        *plan_of(dump, report)
    )


def test_folders_that_are_columns_and_files_of_other_types(tmp_path):
    for step in (0, 1, 2):
        folder = tmp_path / "run" / f"step={step}"
        folder.mkdir(parents=True)
        table = (
            frame(60, 10, seed=step)
            .drop("step")
            .with_columns(pl.col("reward").cast([pl.Float32, pl.Float64][step % 2]))
        )
        table.write_parquet(folder / "a.parquet", row_group_size=7)
    options = {"recipes": ["none", "trl/sequence_mask"], "by": ["step"], "where": "step >= 1 AND env = 'math'"}
    files = mapped(tmp_path / "run", tmp_path / "parts", 4, **options)
    assert as_bytes(iscope.merge(*files)) == as_bytes(iscope.analyze(tmp_path / "run", **options))


def plan_of(dump: Path, report: iscope.Report) -> tuple[bytes, bytes]:
    """The provenance's plan of either: the same but for what the breakdowns carry."""
    plain = iscope.analyze(dump, recipes=RECIPES, by=["env"]).provenance["plan"]
    return json.dumps(plain).encode(), json.dumps(report.provenance["plan"]).encode()


def test_samples_and_tails_that_are_full_merge_exactly(dump, tmp_path, monkeypatch):
    monkeypatch.setattr("iscope.ledger.sample.TOKENS", 3000)
    monkeypatch.setattr("iscope.ledger.tail.KEPT", 100)
    plan = make_plan(RECIPES)
    source = open_dump([dump])
    whole, job = measure_dump(plan, source), Job.of(plan, source)
    assert 3000 <= whole.sample.tokens < 3300
    assert [tail.size for tail in whole.tails.values()] == [100, 100]
    gathering = Gathering()
    for index, unit in enumerate(random.Random(1).sample(job.units, len(job.units))):
        gathering.add(job.measure([unit]), str(index))
    store.save(whole, tmp_path / "whole.ledger")
    store.save(gathering.finish(), tmp_path / "merged.ledger")
    assert (tmp_path / "merged.ledger").read_bytes() == (tmp_path / "whole.ledger").read_bytes()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=rollouts(min_size=1, unusable=True), data=st.data())
def test_units_in_any_grouping_and_order_are_the_whole(drawn, data, tmp_path):
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    table, cut = table_of(drawn), data.draw(st.integers(0, len(drawn)))
    for name, part in (("a", table[:cut]), ("b", table[cut:])):
        part.write_parquet(folder / f"{name}.parquet", row_group_size=data.draw(st.integers(1, 3)))
    plan, source = make_plan(RECIPES), open_dump([folder])
    job, gathering = Job.of(plan, source), Gathering()
    left = data.draw(st.permutations(job.units))
    while left:
        count = data.draw(st.integers(1, len(left)))
        gathering.add(job.measure(left[:count]), f"{len(left)} left")
        left = left[count:]
    store.save(measure_dump(plan, source), folder / "whole")
    store.save(gathering.finish(), folder / "merged")
    assert gathering.missing("") is None
    assert (folder / "whole").read_bytes() == (folder / "merged").read_bytes()
    assert Record.of(source).of_parts(gathering.tallies).tally == source.tally


def test_shards_are_balanced_neighbours_and_every_unit_is_in_one(dump):
    whole = units.units_of(open_dump([dump]))
    assert len(whole) == 36
    assert len({unit.id for unit in whole}) == 36
    for count in (1, 2, 5, 36, 100):
        shards = [units.shard_of(whole, index, count) for index in range(1, count + 1)]
        assert list(itertools.chain(*shards)) == whole
        tokens = [sum(unit.tokens for unit in shard) for shard in shards]
        assert max(tokens) <= sum(tokens) / count + max(unit.tokens for unit in whole)
    assert units.shard_of([], 1, 3) == []


def test_small_row_groups_are_joined(dump, monkeypatch):
    monkeypatch.setattr(units, "TOKENS", 2000)
    found = units.units_of(open_dump([dump]))
    assert 3 < len(found) < 36
    for file in {unit.file for unit in found}:
        own = [unit for unit in found if unit.file == file]
        assert [unit.groups[0] for unit in own] == [0, *(unit.groups[1] for unit in own[:-1])]
        assert own[-1].groups[1] == 12
        assert all(unit.tokens >= 2000 for unit in own[:-1])
        assert sum(unit.rows for unit in own) == 240
        assert [unit.first for unit in own] == [0, *itertools.accumulate(unit.rows for unit in own[:-1])]


def test_ids_do_not_depend_on_what_a_file_holds(tmp_path):
    one, other = (units.Unit("a.parquet", 100, (0, 2), first, rows, 7) for first, rows in ((0, 5), (3, 9)))
    assert one.id == other.id
    assert one.id != units.Unit("b.parquet", 100, (0, 2), 0, 5, 7).id
    assert one.id != units.Unit("a.parquet", 101, (0, 2), 0, 5, 7).id
    assert one.id != units.Unit("a.parquet", 100, (1, 2), 0, 5, 7).id
    assert str(units.Unit("a.parquet", 100, (0, 2), 1000, 5, 7)) == "a.parquet rows 1,000 to 1,004"


def test_a_missing_part_is_refused_or_said(dump, tmp_path):
    files = mapped(dump, tmp_path / "parts", 4, which=[1, 3, 4])
    with pytest.raises(UsageError, match=r"^9 of 36 units of the dump are in no part, those of shard 2 of 4; name all"):
        iscope.merge(*files)
    report = iscope.merge(*files, allow_missing=True)
    assert report.coverage.notes["missing_units"] == 9
    assert report.coverage.notes["missing_rollouts"] == 720 - report.coverage.rollouts_read
    (said,) = [said for said in report.assumptions if "MISSING" in said]
    assert said.startswith(
        "9 of 36 units of the dump (180 of 720 rollouts) are MISSING from every figure: shard 2 of 4"
    )
    assert "missing" in str(report).lower()


def test_missing_shards_are_named_up_to_ten(dump, tmp_path):
    (file,) = mapped(dump, tmp_path / "parts", 30, which=[30])
    with pytest.raises(UsageError, match=r"those of shards 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 19 more of 30;"):
        iscope.merge(file)


def test_a_doubled_part_is_refused(dump, tmp_path):
    first, second = mapped(dump, tmp_path / "parts", 2)
    with pytest.raises(UsageError, match=r"1\.part: 18 of its 18 units are in .*1\.part too; name each part once\.$"):
        iscope.merge(first, second, first)
    half = mapped(dump, tmp_path / "others", 3, which=[1])
    with pytest.raises(UsageError, match=r"others/1\.part: 12 of its 12 units are in .*parts/1\.part too"):
        iscope.merge(first, second, *half)


def test_shards_of_different_counts_that_make_up_the_dump_are_fine(dump, tmp_path):
    files = [*mapped(dump, tmp_path / "a", 2, which=[1]), *mapped(dump, tmp_path / "b", 4, which=[3, 4])]
    assert as_bytes(iscope.merge(*files)) == as_bytes(iscope.analyze(dump, **SETTINGS))
    with pytest.raises(UsageError, match="those of shards that these parts, of 2 and of 4, leave out"):
        iscope.merge(*files[:2])


def test_a_part_of_another_plan_dump_or_version_is_refused(dump, tmp_path, monkeypatch):
    first, _ = mapped(dump, tmp_path / "parts", 2)
    (plan,) = mapped(dump, tmp_path / "plan", 2, which=[2], recipes=["none"])
    with pytest.raises(UsageError, match=r"plan/2\.part: this part was measured with another plan .* than .*1\.part"):
        iscope.merge(first, plan)
    (read,) = mapped(dump, tmp_path / "where", 2, which=[2], where="step > 0")
    with pytest.raises(
        UsageError, match=r"2\.part: this part was measured on another dump, or on one that was read in"
    ):
        iscope.merge(first, read)
    (other,) = mapped(write(tmp_path / "other"), tmp_path / "elsewhere", 2, which=[2])
    with pytest.raises(UsageError, match="measured on another dump"):
        iscope.merge(first, other)
    monkeypatch.setattr("iscope.engines.job.__version__", "9.9")
    (version,) = mapped(dump, tmp_path / "version", 2, which=[2])
    with pytest.raises(UsageError, match=r"by another version of iscope \(9\.9, not "):
        iscope.merge(first, version)


def test_a_file_that_is_no_part_is_refused(dump, tmp_path):
    (part,) = mapped(dump, tmp_path / "parts", 1)
    iscope.analyze(dump, ledger=tmp_path / "a.ledger")
    with pytest.raises(DataError, match=r"a\.ledger: this is a ledger of a whole dump and no part"):
        iscope.merge(tmp_path / "a.ledger")
    with pytest.raises(DataError, match=r"step_0\.parquet: this is no part that iscope map wrote"):
        iscope.merge(dump / "step_0.parquet")
    with pytest.raises(DataError, match=r"none\.part: no such file\.$"):
        iscope.merge(tmp_path / "none.part")
    (tmp_path / "cut.part").write_bytes(part.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"cut\.part: this is no part that iscope map wrote, or it is damaged"):
        iscope.merge(tmp_path / "cut.part")
    with zipfile.ZipFile(part) as old, zipfile.ZipFile(tmp_path / "newer.part", "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b'"iscope.part", "version": 1', b'"iscope.part", "version": 2'))
    with pytest.raises(DataError, match=r"newer\.part is a part of format .*'version': 2.*; this iscope reads .* 1}"):
        iscope.merge(tmp_path / "newer.part")
    with pytest.raises(UsageError, match="There is nothing to merge"):
        iscope.merge()


def test_a_breakdown_by_a_column_that_was_not_carried_is_refused(dump, tmp_path):
    (part,) = mapped(dump, tmp_path / "parts", 1)
    with pytest.raises(DataError, match=r"the ledger has no column 'evn'\. Did you mean 'env'"):
        iscope.merge(part, by=["evn"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 10}, "batches of 10 rollouts in a row are told apart only in a dump that is read as a whole"),
        ({"recipes": ["areal/m2po"]}, "areal/m2po.* looks at the whole batch before it decides on a token"),
        ({"shard": (3, 2)}, "the shard is i/n with i from 1 to n, such as 3/8, not 3/2"),
        ({"shard": (0, 2)}, "not 0/2"),
    ],
    ids=str,
)
def test_what_cannot_be_measured_in_parts(dump, tmp_path, options, message):
    with pytest.raises(UsageError, match=message):
        iscope.map_shard(dump, **({"shard": (1, 2), "output": tmp_path / "a.part"} | options))
    assert list(tmp_path.iterdir()) == []


def test_dumps_that_cannot_be_cut(dump, tmp_path):
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"trainer_logprobs": [-1.0], "inference_logprobs": [-1.5]}\n')
    with pytest.raises(
        UsageError, match=r"a\.jsonl: only Parquet files .* can be measured in parts; make it one first"
    ):
        iscope.map_shard(lines, shard=(1, 1), output=tmp_path / "a.part")
    batch = iscope.RolloutBatch.from_lists([[-1.0]], [[-1.5]])
    with pytest.raises(UsageError, match="batches in memory cannot be measured in parts"):
        iscope.map_shard(batch, shard=(1, 1), output=tmp_path / "a.part")
    sides = open_dump(sides=sides_of(tmp_path))
    with pytest.raises(UsageError, match=r"two sides .* join it first \(iscope convert --trainer"):
        units.units_of(sides)


def sides_of(folder: Path):
    from iscope.dump import Sides

    for name in ("trainer", "inference"):
        frame().select("rollout_id", f"{name}_logprobs").write_parquet(folder / f"{name}.parquet")
    return Sides(trainer=[folder / "trainer.parquet"], inference=[folder / "inference.parquet"])


def test_a_dump_without_a_usable_rollout_is_refused_when_it_is_whole(tmp_path):
    bad = frame(40).with_columns(advantage=float("nan"))
    bad.write_parquet(tmp_path / "bad.parquet", row_group_size=10)
    files = mapped(tmp_path / "bad.parquet", tmp_path / "parts", 2)
    with pytest.raises(DataError, match=r"bad\.parquet: none of its 40 rollouts can be used"):
        iscope.merge(*files)


def test_supplied_ratios_come_along(dump, tmp_path):
    files = mapped(dump, tmp_path / "parts", 3)
    report = iscope.merge(*files)
    assert "IS024" in [finding.code for finding in report.findings]
    assert [len(parts.load(file).asked.record.supplied) for file in files] == [1, 0, 0]


def test_a_saved_part_is_read_as_it_was(dump, tmp_path):
    (file,) = mapped(dump, tmp_path / "parts", 1)
    part = parts.load(file)
    parts.save(part, tmp_path / "again.part")
    assert (tmp_path / "again.part").read_bytes() == file.read_bytes()
    assert store.load(file).rows.equals(part.ledger.rows)
