"""The page on gates: its examples work, and it has every key, format and framework."""

from __future__ import annotations

import re
from pathlib import Path

import iscope
from iscope.gates import read_config
from iscope.gates.defaults import OF_FRAMEWORKS
from iscope.gates.model import KEYS
from iscope.gates.path import read_path
from iscope.render.check import EXTENSIONS, RENDERERS
from tests.gates.dumps import dump

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "gates.md").read_text(encoding="utf-8")
FRAMEWORKS = {"prime-rl": "prime-rl", "nemo-rl": "NeMo-RL", "slime": "slime", "skyrl": "SkyRL", "verl": "verl"}


def block(language):
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_file_of_gates_reads(tmp_path):
    (tmp_path / "iscope.toml").write_text(block("toml"))
    found = read_config(tmp_path / "iscope.toml")
    assert len(found.gates) == 3
    assert found.framework == "prime-rl"


def test_the_example_in_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dump").mkdir()
    dump().write_parquet("dump/a.parquet")
    assert iscope.check("dump/", write_baseline="baseline.json")
    exec(block("python"), {})


def test_paths_on_the_page_are_paths():
    spans = re.findall(r"`((?:mismatch|recipes|breakdowns|coverage)[.\[][^`]+)`", PAGE)
    assert len(spans) >= 8
    for span in spans:
        read_path(span)


def test_it_has_every_key_format_and_framework():
    for word in (*KEYS, *RENDERERS, *EXTENSIONS):
        assert f"`{word}`" in PAGE or f'"{word}"' in PAGE or f"({word}" in PAGE, word
    assert set(FRAMEWORKS) == set(OF_FRAMEWORKS)
    for name in FRAMEWORKS.values():
        assert f"\n| {name} |" in PAGE
