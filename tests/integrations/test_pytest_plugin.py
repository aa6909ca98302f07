"""The pytest plugin as a project uses it: pytest in a process of its own, in a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import iscope
from tests.gates.dumps import dump

ROOT = Path(__file__).resolve().parent.parent.parent
PLUGIN = "iscope.integrations.pytest_plugin"
TESTS = """
import pytest
import iscope


def test_healthy(iscope_check):
    result = iscope_check("again.json", baseline="base.json")
    assert result.passed


def test_wider(iscope_check):
    iscope_check("wide.json", baseline="base.json")


def test_wider_is_expected(iscope_check):
    with pytest.raises(iscope.GateFailure, match="by_p"):
        iscope_check("wide.json", baseline="base.json")
    assert not iscope_check("wide.json", baseline="base.json", fail=False)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    for name, made in (("good", dump()), ("again", dump(seed=1)), ("wide", dump(2.0, seed=1))):
        made.write_parquet(folder / f"{name}.parquet")
        report = iscope.analyze(folder / f"{name}.parquet", recipes=["none"])
        (folder / f"{name}.json").write_text(json.dumps(report.to_dict()))  # checked without torch, so quickly
    assert iscope.check(folder / "good.json", gates="default", write_baseline=folder / "base.json")
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\naddopts = --strict-config --strict-markers\n")
    (folder / "iscope.toml").write_text(
        'defaults = true\n[[gates]]\nfigure = "mismatch.k3"\nmax = 1e-6\nlevel = "warn"\n'
    )
    (folder / "test_gap.py").write_text(TESTS)
    return folder


def pytest_in(folder, *arguments, plugins=(PLUGIN,)):
    loaded = [word for name in plugins for word in ("-p", name)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *loaded, "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("processes", [0, 2])
def test_a_gate_that_fails_fails_its_test_and_warnings_are_listed(project, processes):
    several = ["-n", str(processes)] if processes else []
    plugins = (PLUGIN, "xdist") if processes else (PLUGIN,)
    done = pytest_in(project, *several, plugins=plugins)
    assert done.returncode == 1, done.stderr
    assert "1 failed, 2 passed" in done.stdout
    expected = iscope.check(project / "wide.json", gates=project / "iscope.toml", baseline=project / "base.json")
    assert f"GateFailure: {expected.message}:" in done.stdout
    for gate in expected.failures:
        assert f"- {gate.message}" in done.stdout
    assert "iscope: gates that warn" in done.stdout
    warned = [line for line in done.stdout.splitlines() if line.startswith("test_gap.py::test_healthy: ")]
    assert any("mismatch.k3 is " in line and "(<= 1.00e-6)" in line for line in warned)


def test_the_fixture_gives_what_the_command_and_python_give(project):
    (project / "test_same.py").write_text(
        "import json, pathlib\n"
        "def test_same(iscope_check):\n"
        "    found = iscope_check('wide.parquet', baseline='base.json', fail=False).to_dict()\n"
        "    del found['provenance']\n"
        "    pathlib.Path('found.json').write_text(json.dumps(found))\n"
    )
    assert pytest_in(project, "test_same.py").returncode == 0
    found = json.loads((project / "found.json").read_text())
    mine = iscope.check(
        project / "wide.parquet", gates=project / "iscope.toml", baseline=project / "base.json"
    ).to_dict()
    assert found == {name: value for name, value in mine.items() if name != "provenance"}


def test_the_options_name_gates_and_baseline(project, tmp_path):
    (project / "test_plain.py").write_text("def test_plain(iscope_check):\n    iscope_check('wide.json')\n")
    assert pytest_in(project, "test_plain.py").returncode == 0
    assert pytest_in(project, "test_plain.py", "--iscope-baseline", "base.json").returncode == 1
    strict = tmp_path / "strict.toml"
    strict.write_text('[[gates]]\nfigure = "mismatch.k3"\nmax = 1e-9\n')
    done = pytest_in(project, "test_plain.py", "--iscope-gates", str(strict))
    assert done.returncode == 1
    assert "beyond the limit (<= 1.00e-9)" in done.stdout
    done = pytest_in(project, "test_plain.py", "--iscope-gates", "nothere.toml")
    assert done.returncode == 1
    assert "nothere.toml: cannot be read" in done.stdout


def test_baselines_are_written_when_asked(project):
    (project / "test_write.py").write_text(
        "def test_write(iscope_check):\n    iscope_check('wide.json', baseline='own.json')\n"
    )
    own = project / "own.json"
    assert pytest_in(project, "test_write.py").returncode == 1
    assert not own.exists()
    assert pytest_in(project, "test_write.py", "--iscope-write-baseline").returncode == 0
    first = own.read_bytes()
    assert pytest_in(project, "test_write.py").returncode == 0
    assert own.read_bytes() == first
    own.write_bytes((project / "base.json").read_bytes())
    assert pytest_in(project, "test_write.py").returncode == 1
    assert pytest_in(project, "test_write.py", "--iscope-write-baseline").returncode == 0
    assert own.read_bytes() == first


def test_loading_the_plugin_imports_nothing_heavy(tmp_path):
    (tmp_path / "test_light.py").write_text(
        "import sys\n"
        "def test_light():\n"
        "    assert not {'torch', 'polars', 'numpy', 'pyarrow', 'rich', 'typer'} & set(sys.modules)\n"
    )
    done = pytest_in(tmp_path, "-W", "error")
    assert done.returncode == 0, done.stdout


def test_it_is_an_entry_point():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"iscope": PLUGIN}
