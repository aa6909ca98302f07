"""Every real dump: what was done to it is named, and healthy ones have nothing above information."""

from __future__ import annotations

import pytest

import iscope

TEMPERATURE, ILLUSION, SYNC, LAG, TRAINED, ENGINE = "IS003", "IS005", "IS012", "IS013", "IS014", "IS015"

DUE = {
    ("base", "trainer_fp32_lag0"): set(),
    ("base", "trainer_bf16_lag0"): set(),
    ("base", "trainer_fp32_lag1"): {LAG, TRAINED},
    ("base", "trainer_fp32_lag2"): {LAG, TRAINED},
    ("base", "trainer_fp32_lag4"): {LAG, TRAINED},
    ("base", "trainer_fp32_lag8"): {LAG, TRAINED},
    ("base", "trainer_bf16_lag8"): {LAG, TRAINED},
    ("engine_fp16", "trainer_fp32"): set(),
    ("engine_fp32", "trainer_fp32"): set(),
    ("engine_int8", "trainer_fp32"): {ENGINE},
    ("engine_int8", "trainer_bf16"): {ENGINE},
    ("lagged", "trainer_fp32_lag1"): {LAG},
    ("lagged", "trainer_fp32_lag4"): {LAG},
    ("lagged", "trainer_fp32_lag8"): {LAG},
    ("temp07_processed", "trainer_fp32"): {TEMPERATURE},
    ("temp07_processed", "trainer_fp32_t07"): set(),
    ("temp07_raw", "trainer_fp32"): {ILLUSION},
    ("train_async", "trainer_fp32"): {SYNC, LAG, TRAINED},
    ("train_sync", "trainer_bf16"): set(),
    ("train_sync", "trainer_fp32"): {SYNC},
}


def test_no_dump_is_left_out(sample):
    files = {(path.parent.name, path.stem) for path in sample.glob("*/trainer*.parquet")}
    assert files == DUE.keys()


@pytest.mark.parametrize(("dump", "trainer"), DUE, ids="/".join)
def test_named(dump, trainer, sample):
    report = iscope.analyze(trainer=sample / dump / f"{trainer}.parquet", vllm=sample / dump / "vllm.parquet")
    above = {finding.code for finding in report.findings if finding.severity != "information"}
    assert above == DUE[dump, trainer]
    assert (report.verdict.word in ("DATA FAULT", "NOT HEALTHY")) == bool(above)


def test_sides_the_wrong_way_round(sample):
    folder = sample / "train_sync"
    found = iscope.inspect(trainer=folder / "vllm.parquet", vllm=folder / "trainer_bf16.parquet")
    assert "IS010" in {finding.code for finding in found.findings if finding.severity == "error"}
