"""The example repository and the action, end to end: a healthy dump passes, a worsened one fails the build."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import yaml

import iscope
from benchmarks.gates import widened

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "ci"
COMMAND = "iscope check dump/ --format github"


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    """The example's folder, with the dump that its baseline is of."""
    folder = tmp_path_factory.mktemp("repository") / "ci"
    shutil.copytree(EXAMPLE, folder)
    (folder / "dump").mkdir()
    base = ROOT / "sample_data" / "base"
    sides = {"trainer": base / "trainer_fp32_lag0.parquet", "vllm": base / "vllm.parquet"}
    iscope.convert(**sides, output=folder / "dump" / "rollouts.parquet")
    return folder


@pytest.fixture(scope="module")
def worse(healthy, tmp_path_factory):
    """The same with log-ratios whose k3 is twice as large."""
    folder = tmp_path_factory.mktemp("worse") / "ci"
    shutil.copytree(healthy, folder)
    file = folder / "dump" / "rollouts.parquet"
    widened(pl.read_parquet(file), 2.0).write_parquet(file)
    return folder


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    """A folder with the command ``iscope`` of this checkout."""
    folder = tmp_path_factory.mktemp("bin")
    command = folder / "iscope"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m iscope "$@"\n')
    command.chmod(0o755)
    return folder


def bash(script, folder, tools, **environment):
    own = {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GITHUB_"))}
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env=plain | own | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_baseline_is_that_of_the_dump(healthy):
    written = healthy / "new.json"
    result = iscope.check(healthy / "dump", gates=healthy / "iscope.toml", write_baseline=written)
    assert result.word == "PASS"
    new, old = (json.loads(file.read_text()) for file in (written, EXAMPLE / "baseline.json"))
    for part in ("schema", "definition"):
        assert new[part] == old[part]
    assert new["figures"].keys() == old["figures"].keys()
    for path, figure in new["figures"].items():
        assert figure["value"] == pytest.approx(old["figures"][path]["value"], rel=1e-6)


def test_the_workflow_passes_a_healthy_dump_and_fails_a_worsened_one(healthy, worse, tools, tmp_path):
    workflow = yaml.safe_load((EXAMPLE / ".github" / "workflows" / "mismatch.yml").read_text())
    steps = [step.get("run", "") for step in workflow["jobs"]["mismatch"]["steps"]]
    assert COMMAND in steps
    summary = tmp_path / "summary.md"
    done = bash(COMMAND, healthy, tools, GITHUB_STEP_SUMMARY=str(summary))
    assert (done.returncode, "::error" in done.stdout) == (0, False), done.stderr
    done = bash(COMMAND, worse, tools, GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 1, done.stderr
    assert done.stdout.count("::error title=iscope%3A mismatch.by_p[") == 4
    assert summary.read_text().count("# iscope check: ") == 2
    assert "make_dump.py --model" in "\n".join(steps)
    assert "iscope check dump/ -o iscope.xml --exit-zero --force" in steps


def test_the_test_fails_on_a_worsened_dump(worse, tools):
    plugin = "-p iscope.integrations.pytest_plugin -p no:cacheprovider"
    done = bash(f'"{sys.executable}" -m pytest {plugin}', worse, tools, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert done.returncode == 1, done.stderr
    assert "GateFailure: 4 failed" in done.stdout
    assert "test_mismatch.py::test_engine_and_trainer_agree" in done.stdout


def action(**inputs):
    """The script of the action's check, and its environment for these inputs."""
    found = yaml.safe_load((ROOT / "action.yml").read_text())
    assert found["runs"]["using"] == "composite"
    install, check = found["runs"]["steps"]
    assert install["if"] == "inputs.install == 'true'"
    assert all(step["shell"] == "bash" for step in (install, check))
    given = {name: declared.get("default", "") for name, declared in found["inputs"].items()}
    assert inputs.keys() <= given.keys()
    values = {f"${{{{ inputs.{name} }}}}": value for name, value in (given | inputs).items()}
    return check["run"], {name: values[value] for name, value in check["env"].items()}


def test_the_action_runs_the_check(worse, tools):
    report = iscope.analyze(worse / "dump", recipes=["trl/token_mask:clip_min=0.5,clip_max=2"])
    (worse / "the report.json").write_text(json.dumps(report.to_dict()))
    script, environment = action(dump="'the report.json'", baseline="baseline.json", arguments="--exit-zero --verbose")
    done = bash(script, worse, tools, **environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("CHECK FAIL: 4 failed")
    script, environment = action(dump="'the report.json'", gates="default")
    assert bash(script, worse, tools, **environment).returncode == 0


def test_the_action_runs_nothing_that_stands_in_an_input(tmp_path):
    spy = tmp_path / "iscope"
    spy.write_text('#!/bin/sh\nfor word in "$@"; do echo "<$word>"; done\n')
    spy.chmod(0o755)
    bait = f"$(touch {tmp_path}/x) '`touch {tmp_path}/y`;' ; touch {tmp_path}/z"
    script, environment = action(dump=bait, gates=bait, arguments=bait)
    done = bash(script, tmp_path, tmp_path, **environment)
    assert done.returncode == 0, done.stderr
    assert f"<`touch {tmp_path}/y`;>" in done.stdout
    assert f"<{bait}>" in done.stdout
    assert not any((tmp_path / name).exists() for name in "xyz")


def test_a_worse_dump_is_worse(healthy, worse):
    before, after = (iscope.analyze(one / "dump", recipes=["none"]).mismatch["k3"].value for one in (healthy, worse))
    assert after / before == pytest.approx(2.0, rel=1e-3)
