"""The Ray engine on a real cluster of this machine: the same bits as the local one, whatever happens to its workers."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import iscope
from iscope.api import make_plan
from iscope.cli.app import run
from iscope.dump import open_dump, units
from iscope.engines import in_parts
from iscope.engines.here import Local
from iscope.engines.job import Job
from iscope.engines.ray_tasks import Ray, _lost, _tasks
from iscope.errors import DataError, IscopeError, UsageError
from iscope.ledger import store
from tests.engines import deadly
from tests.engines.dumps import frame, write

ray = pytest.importorskip("ray")

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ["none", "trl/token_mask", "verl/rollout_is:batch_normalize=true"]
SETTINGS = {"recipes": RECIPES, "by": ["env"]}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory):
    """A cluster of 8 logical processors; the workers know the driver's process and a file to mark a kill with."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    marker = tmp_path_factory.mktemp("ray") / "killed"
    ray.init(
        "local",
        num_cpus=8,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=80 * 2**20,
        runtime_env={"env_vars": {deadly.DRIVER: str(os.getpid()), deadly.KILLED: str(marker)}},
    )
    for number, handler in handlers.items():
        signal.signal(number, handler)
    yield marker
    ray.shutdown()


@pytest.fixture(autouse=True)
def _every_row_group_is_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "TOKENS", 1)


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("dump") / "run", frames=2, rollouts=120)


def as_bytes(report: iscope.Report) -> bytes:
    return json.dumps(report.to_dict()).encode()


@pytest.mark.parametrize(("workers", "tokens"), [(1, 10_000), (2, 1), (8, 1)])
def test_the_same_bits_as_the_local_engine(cluster, dump, tmp_path, workers, tokens):
    ticks = []
    report = iscope.analyze(
        dump,
        **SETTINGS,
        engine=Ray(in_flight=workers, task_tokens=tokens),
        ledger=tmp_path / "ray.ledger",
        progress=lambda rollouts, tokens: ticks.append(rollouts),
    )
    assert as_bytes(report) == as_bytes(iscope.analyze(dump, **SETTINGS, ledger=tmp_path / "local.ledger"))
    assert (tmp_path / "ray.ledger").read_bytes() == (tmp_path / "local.ledger").read_bytes()
    assert sum(ticks) == 240
    assert len(ticks) == (12 if tokens == 1 else 1)


def test_shuffled_units_give_the_same_bits(cluster, dump, tmp_path):
    job = Job.of(make_plan(RECIPES), open_dump([dump]))
    shuffled = replace(job, units=tuple(random.Random(3).sample(job.units, len(job.units))))
    ledger, _ = in_parts.run(shuffled, Ray(task_tokens=3000, in_flight=2))
    store.save(ledger, tmp_path / "ray.ledger")
    store.save(in_parts.run(job, Local())[0], tmp_path / "local.ledger")
    assert (tmp_path / "ray.ledger").read_bytes() == (tmp_path / "local.ledger").read_bytes()


def test_a_worker_that_is_killed_changes_nothing(cluster, dump):
    settings = {"recipes": ["none", deadly.once], "where": "step >= 1"}
    report = iscope.analyze(dump, **settings, engine=Ray(task_tokens=3000, in_flight=2))
    assert cluster.exists(), "no worker was killed"
    assert as_bytes(report) == as_bytes(iscope.analyze(dump, **settings))


def test_rows_whose_worker_is_lost_every_time(cluster, tmp_path):
    table = frame(80, 20, varied=False)
    deadly_tokens = pl.col("inference_logprobs").list.eval(pl.lit(deadly.DEADLY, pl.Float32))
    row = pl.int_range(pl.len())
    table = table.with_columns(
        inference_logprobs=pl.when(row == 45).then(deadly_tokens).otherwise("inference_logprobs")
    )
    table.write_parquet(tmp_path / "a.parquet", row_group_size=10)
    engine = Ray(task_tokens=1000, retries=0, in_flight=2)
    with pytest.raises(
        IscopeError, match=r"^.*a\.parquet rows 40 to 49: the Ray worker was lost 1 times \(WorkerCrashed"
    ):
        iscope.analyze(tmp_path / "a.parquet", recipes=[deadly.token], engine=replace(engine, task_tokens=1))
    report = iscope.analyze(tmp_path / "a.parquet", recipes=[deadly.token], engine=engine, allow_missing=True)
    assert report.coverage.notes["missing_units"] == 1
    assert report.coverage.notes["missing_rollouts"] == 10
    (said,) = [said for said in report.assumptions if "MISSING" in said]
    assert said.startswith("1 of 8 units of the dump (10 of 80 rollouts) are MISSING from every figure: ")
    assert "a.parquet rows 40 to 49 (" in said
    rest = iscope.analyze(table.filter((row < 40) | (row >= 50)), recipes=[deadly.token])
    assert report.mismatch == rest.mismatch


def test_a_lost_task_of_several_units_says_so():
    several = [units.Unit("a.parquet", 100, (i, i + 1), 10 * i, 10, 7) for i in range(3)]
    failed = _lost(several, "OutOfMemoryError", 3)
    assert str(failed.error).startswith(
        "one of 3 units from a.parquet rows 0 to 9 on: the Ray worker was lost 4 times (OutOfMemoryError); "
    )
    assert failed.error.exit_code == 4


def test_what_is_wrong_with_a_file_is_said_as_ever(cluster, tmp_path):
    dump = write(tmp_path / "run", frames=2, rollouts=40)
    job = Job.of(make_plan(RECIPES), open_dump([dump]))
    (dump / "step_1.parquet").unlink()
    with pytest.raises(DataError, match=r"step_1\.parquet: the file cannot be reached any more \(No such file"):
        in_parts.run(job, Ray(task_tokens=1, in_flight=2))
    _, record = in_parts.run(job, Ray(task_tokens=1, in_flight=2), allow_missing=True)
    assert (record.missing.units, record.missing.rows) == (2, 40)


def test_a_run_that_goes_on(cluster, dump, tmp_path):
    state = tmp_path / "state"

    class StoppedError(Exception):
        pass

    def stop(rollouts: int, tokens: int) -> None:
        if len(list(state.glob("*.part"))) >= 3:
            raise StoppedError

    engine = Ray(task_tokens=1, in_flight=2)
    with pytest.raises(StoppedError):
        iscope.analyze(dump, **SETTINGS, engine=engine, resume=state, progress=stop)
    assert len(list(state.glob("*.part"))) == 3
    report = iscope.analyze(dump, **SETTINGS, engine=engine, resume=state)
    assert as_bytes(report) == as_bytes(iscope.analyze(dump, **SETTINGS))
    assert len(list(state.glob("*.part"))) == 12
    assert as_bytes(iscope.analyze(dump, **SETTINGS, resume=state)) == as_bytes(report)


def test_the_command_line_uses_the_cluster(cluster, dump, tmp_path):
    words = ["analyze", str(dump), "--recipe", "trl/token_mask", "--quiet", "-o"]
    assert run([*words, str(tmp_path / "ray.json"), "--engine", "ray"]) == 0
    assert run([*words, str(tmp_path / "local.json")]) == 0
    assert (tmp_path / "ray.json").read_bytes() == (tmp_path / "local.json").read_bytes()


def test_another_version_on_a_worker_is_refused(cluster, dump):
    job = Job.of(make_plan(RECIPES), open_dump([dump]))
    with pytest.raises(UsageError, match=r"a Ray worker has iscope .*, not 9\.9; install the same everywhere"):
        in_parts.run(replace(job, whole=replace(job.whole, iscope="9.9")), Ray())


def test_what_is_wrong_with_a_task_is_one_sentence(cluster, dump):
    job = Job.of(make_plan(RECIPES), open_dump([dump]))
    broken = replace(job, plan=replace(job.plan, precision="nonesuch", recipes=("none",)))
    with pytest.raises(IscopeError, match=r"^a task failed on a Ray worker, \w+: .* \(workers need the same iscope\)$"):
        in_parts.run(broken, Ray())


def test_a_cluster_of_its_own_is_ended_and_signals_are_left_alone(dump, tmp_path):
    code = (
        "import os, signal, sys, iscope, ray\n"
        "from iscope.engines import Ray\n"
        "before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]\n"
        "engine = Ray('local', options={'num_cpus': 1, 'object_store_memory': 80 * 2**20})\n"
        "iscope.analyze(sys.argv[1], recipes=['none'], engine=engine)\n"
        "assert before == [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]\n"
        "print(ray.is_initialized(), os.environ['RAY_USAGE_STATS_ENABLED'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(dump)],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "RAY_USAGE_STATS_ENABLED"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "False 0\n"), done.stderr


def test_no_cluster_at_the_address(dump, monkeypatch, capfd):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(UsageError, match=r"^no Ray cluster answers at 127\.0\.0\.1:9 \(.*refused\)\.$"):
        iscope.analyze(dump, engine=Ray(address="127.0.0.1:9"))
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    assert run(["analyze", str(dump), "--engine", "ray"]) == 2
    assert "iscope: error: no Ray cluster answers at 127.0.0.1:9 (" in capfd.readouterr().err


def test_without_ray_the_extra_is_named(monkeypatch, dump, capfd):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ray" else found(name))
    assert run(["analyze", str(dump), "--engine", "ray"]) == 2
    said = "iscope: error: the ray engine needs Ray, which is not installed here: pip install 'iscope[ray]'.\n"
    assert capfd.readouterr() == ("", said)


@pytest.mark.parametrize("field", ["task_tokens", "cpus", "in_flight", "retries"])
def test_numbers_that_make_no_sense(field):
    with pytest.raises(UsageError, match=rf"{field} of the ray engine must be at least \d, not -1\."):
        Ray(**{field: -1})


def test_an_engine_that_there_is_not(dump):
    with pytest.raises(UsageError, match=r"engine must be local or ray, not 'Ray'\. Did you mean 'ray'\?"):
        iscope.analyze(dump, engine="Ray")


def test_tasks_hold_neighbouring_units_up_to_their_size(dump):
    whole = units.units_of(open_dump([dump]))
    tasks = list(_tasks(whole, 2500))
    assert [unit for task in tasks for unit in task] == whole
    assert len(tasks) > 2
    assert all(len(task) == 1 or sum(unit.tokens for unit in task) <= 2500 for task in tasks)
    assert list(_tasks(whole, 1)) == [[unit] for unit in whole]
    assert list(_tasks([], 1)) == []


def test_engines_are_found_by_name_without_being_imported_first():
    code = "import sys, iscope; print(iscope.engines.Ray.__name__, 'ray' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "Ray False\n"
    with pytest.raises(AttributeError, match=r"module 'iscope\.engines' has no attribute 'Rya'"):
        _ = iscope.engines.Rya
