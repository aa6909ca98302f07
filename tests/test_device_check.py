"""The check of a GPU: what it says without one, that it runs through, and that it sees what differs."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
import torch

from benchmarks import device_check
from iscope.api import make_plan
from iscope.dump import open_dump
from iscope.engines.device import CPU
from iscope.ledger.measure import measure
from tests.contract_cases import batch_of, ragged
from tests.pretend_device import pretend_device


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["device_check"])
    assert device_check.main() == 0
    assert "finds no CUDA device here: nothing was checked." in capsys.readouterr().out


def test_it_runs_through(monkeypatch, capsys):
    """On the CPU in place of a GPU, with few recipes."""
    monkeypatch.setattr(device_check, "every_recipe", make_plan)
    assert device_check.check(CPU, tokens=20_000, repeats=1)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["ok"] * 4
    assert any(line.startswith("pass / decode") for line in lines)
    assert any("GB/s" in line for line in lines)


def test_a_pretend_device_agrees():
    with pretend_device() as device:
        found = device_check.agreement(open_dump([batch_of(ragged())]), device, make_plan())
    assert found.passed
    assert (found.rollouts, found.moved) == (8, 0)


@pytest.mark.parametrize("spoil", [lambda v: v + 1e-9, lambda v: v * float("inf"), lambda v: v * float("nan")])
def test_it_sees_another_sum(spoil):
    plan, batch = make_plan(), batch_of(ragged())
    expected = measure(batch, plan)
    column = "trainer/inference:k3_sum"
    other = replace(expected, columns=expected.columns | {column: spoil(expected.columns[column])})
    found = device_check.Agreement()
    found.add(other, expected)
    assert not found.passed
    assert found.worst["sums"][1] == column


def test_it_sees_other_counts_and_columns():
    plan, batch = make_plan(), batch_of(ragged())
    expected = measure(batch, plan)
    moved = replace(expected, columns=expected.columns | {"scored": expected.columns["scored"] + 1})
    missing = replace(expected, columns={name: v for name, v in expected.columns.items() if name != "scored"})
    for other in (moved, missing):
        found = device_check.Agreement()
        found.add(other, expected)
        assert not found.passed
