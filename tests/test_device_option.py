"""--device: which device is taken, what is said where there is none, and that the reports are those of the CPU."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import iscope
from iscope.cli.app import run
from iscope.engines import device as devices
from iscope.engines import local
from iscope.errors import UsageError
from tests.pretend_device import CUDA, pretend_device

SAMPLE = Path(__file__).resolve().parent.parent / "sample_data"
ASYNC = SAMPLE / "train_async"
SIDES = {"trainer": ASYNC / "trainer_fp32.parquet", "vllm": ASYNC / "vllm.parquet"}
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.fixture
def gpu(monkeypatch):
    """A pretend GPU, on which every thread of a pass measures."""
    monkeypatch.setattr(devices.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(devices.torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(devices.torch.cuda, "mem_get_info", lambda: (2**36, 2**37))
    monkeypatch.setattr(local, "lane", lambda device: pretend_device() if device == CUDA else devices.lane(device))


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return {path: value}
    return {key: leaf for name, one in items for key, leaf in leaves(one, f"{path}.{name}").items()}


def assert_same_report(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Counts and words are the same, figures but for the rounding of sums."""
    found, expected = leaves(found), leaves(expected)
    assert list(found) == list(expected)
    for path, value in expected.items():
        if isinstance(value, float):
            assert math.isclose(found[path], value, rel_tol=1e-9, abs_tol=1e-12), (path, found[path], value)
        else:
            assert found[path] == value, path


def report_of(command: Any, **options: Any) -> dict[str, Any]:
    return {name: part for name, part in command(**options).to_dict().items() if name != "provenance"}


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (iscope.analyze, {"by": ["step"]}),
        (iscope.analyze, {"recipes": ["areal/m2po", "trl/token_mask"], "fit": 0.95, "batch": "step"}),
        (iscope.compare, {"recipes": ["trl/token_mask", "prime-rl/seq_mis"], "sweep": "clip_max=1.5,2,5"}),
        (iscope.inspect, {}),
    ],
)
def test_reports_are_those_of_the_cpu(gpu, command, options):
    expected = report_of(command, **SIDES, device="cpu", **options)
    assert_same_report(report_of(command, **SIDES, device="cuda", **options), expected)


@pytest.mark.parametrize(
    "spec",
    ["trl/token_mask", "areal/m2po", "verl/rollout_is:batch_normalize=true", "nemo-rl/icepop:0.5,5", "prime-rl/ipo"],
)
@pytest.mark.parametrize("batch", ["all", 64])
def test_replay(gpu, spec, batch):
    expected = iscope.replay(**SIDES, recipe=spec, batch=batch, device="cpu")
    with pretend_device():  # replay works in the thread that called it
        found = iscope.replay(**SIDES, recipe=spec, batch=batch, device="cuda")
    assert (found.rollouts, found.tokens, found.kept) == (expected.rollouts, expected.tokens, expected.kept)
    assert found.loss == pytest.approx(expected.loss, rel=1e-9, abs=1e-15)
    for name in ("weight", "keep", "coefficient"):
        there, here = (result.to_polars()[name].explode() for result in (found, expected))
        assert there.is_null().equals(here.is_null())
        np.testing.assert_allclose(there.drop_nulls().to_numpy(), here.drop_nulls().to_numpy(), rtol=1e-6, atol=1e-15)


def test_two_dumps(gpu):
    other = {f"against_{side}": file for side, file in SIDES.items()}
    lagged = {"trainer": SAMPLE / "lagged" / "trainer_fp32_lag4.parquet", "vllm": SAMPLE / "lagged" / "vllm.parquet"}
    expected = report_of(iscope.compare, **lagged, **other, device="cpu")
    assert_same_report(report_of(iscope.compare, **lagged, **other, device="cuda"), expected)


def test_a_function_of_ones_own_gets_tensors_of_the_device(gpu):
    places = set()

    @iscope.recipe("mine/places")
    def weight(view):
        places.add(view.device.type)
        return torch.ones_like(view.trainer)

    @iscope.recipe("mine/numpy")
    def broken(view):
        return torch.from_numpy(np.exp(view.trainer.numpy()))

    iscope.analyze(**SIDES, recipes=[weight], device="cuda")
    assert places == {"cuda"}
    with pytest.raises(UsageError, match=r"to numpy.*on the device cuda; take cpu if it cannot use those"):
        iscope.analyze(**SIDES, recipes=[broken], device="cuda")
    assert iscope.analyze(**SIDES, recipes=[broken], device="cpu").recipes


def test_auto(monkeypatch, gpu):
    assert devices.device_of("auto") == devices.device_of("cuda") == CUDA
    assert devices.device_of("cpu") == devices.CPU
    monkeypatch.setattr(devices.torch.cuda, "mem_get_info", lambda: (2**30, 2**37))
    assert devices.device_of("auto") == devices.CPU, "a GPU that is in use is left alone"
    assert devices.device_of("cuda") == CUDA


def test_a_gpu_whose_memory_cannot_be_told_is_left_alone(monkeypatch, gpu):
    def broken():
        raise RuntimeError("out of memory")

    monkeypatch.setattr(devices.torch.cuda, "mem_get_info", broken)
    assert devices.device_of("auto") == devices.CPU


def test_a_full_gpu_is_said_in_one_sentence(monkeypatch, gpu):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(local, "to_device", full)
    with pytest.raises(UsageError, match=r"^The GPU has too little free memory for this dump: take the device cpu\.$"):
        iscope.analyze(**SIDES, device="cuda")


def test_batches_for_a_gpu_are_larger():
    assert devices.batch_tokens(CUDA) > devices.batch_tokens(devices.CPU) == 2**20


@without_gpu
def test_without_a_gpu():
    assert devices.device_of("auto") == devices.CPU
    with pytest.raises(UsageError, match=r"^The device cuda cannot be used: torch .*; take cpu, or leave it out\.$"):
        devices.device_of("cuda")


def test_a_name_that_is_none():
    with pytest.raises(UsageError, match=r"must be auto, cpu or cuda, not 'cudaa'\. Did you mean"):
        iscope.analyze(**SIDES, device="cudaa")


@without_gpu
@pytest.mark.parametrize("command", ["analyze", "compare", "inspect", "replay"])
def test_the_command_says_that_there_is_none(command, capsys, tmp_path):
    sides = [f"--{side}={file}" for side, file in SIDES.items()]
    file = ["--recipe", "trl/none", "-o", str(tmp_path / "out.parquet")] if command == "replay" else []
    assert run([command, *sides, *file, "--device", "cuda"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "The device cuda cannot be used" in captured.err
    assert "Traceback" not in captured.err


def test_the_command_takes_no_other(capsys):
    assert run(["analyze", "x.parquet", "--device", "gpu"]) == 2
    assert "'gpu' is not one of 'auto', 'cpu', 'cuda'" in capsys.readouterr().err
