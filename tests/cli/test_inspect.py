"""``iscope inspect`` and ``iscope explain`` as a user runs them."""

from __future__ import annotations

import json

import polars as pl
import pytest

import iscope
from iscope.analysis.findings import kinds
from iscope.cli.app import run
from tests.findings.factory import healthy


def squash(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def dump(tmp_path):
    path = tmp_path / "dump.parquet"
    table = healthy(groups=6, steps=3).table().with_columns(prompt_tokens=pl.lit(17))
    table.rename({"inference_logprobs": "rollout_log_probs"}).write_parquet(path)
    return path


def test_what_is_in_a_dump(dump, capsys):
    assert run(["inspect", str(dump)]) == 0
    text = squash(capsys.readouterr().out)
    assert f"dump.parquet: 48 rows, {dump.stat().st_size:,} bytes" in text
    assert "inference_logprobs from rollout_log_probs [list<float>]" in text
    assert "loss_mask [list<bool>]" in text
    assert "IGNORED prompt_tokens" in text
    assert "ROLLOUTS 48 read, 48 with a scored token, 0 without, 0 left out" in text
    assert "STEPS 3 steps, 0 to 2" in text
    assert "GROUPS 6 groups, g000 to g005" in text
    assert "GROUP_SIZE 8 / 8 / 8 rollouts per group" in text
    assert "VERDICT SMALL MISMATCH: " in text
    assert "WARNING" not in text


def test_json(dump, capsys):
    assert run(["inspect", str(dump), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == {"name": "iscope.inspection", "version": 1}
    assert found == iscope.inspect(dump).to_dict()
    assert found["ignored"] == {"": ["prompt_tokens"]}
    assert found["shape"]["steps"] == {"count": 3, "first": 0, "last": 2}
    assert found["findings"] == []


def test_two_sides(sample, capsys):
    sides = [str(sample / "engine_int8" / name) for name in ("trainer_fp32.parquet", "vllm.parquet")]
    assert run(["inspect", "--trainer", sides[0], "--vllm", sides[1], "--verbose"]) == 0
    text = squash(capsys.readouterr().out)
    assert "LAYOUT paired sides" in text
    assert "STEPS 1 step, 0 GROUPS 12 groups, " in text
    assert "POLICY_VERSION 1 policy version, 0 TRAINER_VERSION 1 trainer version, 0 VERDICT " in text
    assert "trainer_logprobs from logprobs [list<float> trainer]" in text
    assert "WARNING IS015 Offset at lag 0: a quantised engine or another implementation" in text
    assert "Try: score one rollout in the engine and in the trainer" in text


def test_the_verdict_alone(dump, capsys):
    assert run(["inspect", str(dump), "--quiet"]) == 0
    assert squash(capsys.readouterr().out).startswith("VERDICT SMALL MISMATCH: ")


def test_own_level(dump, capsys):
    assert run(["inspect", str(dump), "--quiet", "--healthy-k3", "1e-5"]) == 0
    assert "VERDICT ELEVATED MISMATCH" in capsys.readouterr().out
    assert run(["inspect", str(dump), "--healthy-k3", "-1"]) == 2
    assert "must be a positive number of nats" in capsys.readouterr().err


def test_nothing_to_inspect(capsys):
    assert run(["inspect"]) == 2
    assert "There is nothing to analyze" in capsys.readouterr().err


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.code)
def test_every_kind_is_explained(kind, capsys):
    assert run(["explain", kind.code.lower()]) == 0
    text = squash(capsys.readouterr().out)
    for part in (kind.title, kind.meaning, *kind.consistent_with, kind.no_evidence_of, kind.action, kind.method):
        assert squash(part) in text
    assert all(source in text for source in kind.sources)


def test_all_kinds(capsys):
    assert run(["explain"]) == 0
    text = capsys.readouterr().out
    assert [line[:5] for line in text.splitlines() if line.startswith("IS")] == [kind.code for kind in kinds()]
    assert "dense bf16: up to 0.002" in text
    assert run(["explain", "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["findings"]) == len(kinds())


def test_no_such_kind(capsys):
    assert run(["explain", "IS999"]) == 2
    assert "there is no finding 'IS999'" in capsys.readouterr().err


def test_codes_are_unique_and_words_are_whole():
    found = kinds()
    assert len({kind.code for kind in found}) == len(found)
    for kind in found:
        texts = (kind.meaning, kind.method, kind.action, kind.no_evidence_of, *kind.consistent_with)
        assert all(text and text == text.strip() and "  " not in text for text in texts), kind.code
        assert kind.meaning.endswith(".")
        assert kind.method.endswith(".")
        assert not kind.action.endswith(".")
        assert kind.sources
