"""Pareto k-hat against arviz-stats on the same arrays, and what it takes away."""

from __future__ import annotations

import math
import warnings

import numpy as np
import polars as pl
import pytest
from arviz_stats.base import array_stats
from hypothesis import given
from hypothesis import strategies as st

import iscope
from iscope.analysis.figures import tail as figure
from iscope.analysis.psis import pareto_khat, tail_length, threshold
from iscope.analysis.report import build_report
from iscope.analysis.rows import scored_rows
from iscope.ledger.tail import KEPT, LARGEST_DUMP
from iscope.recipes.model import Pair
from tests.analysis.test_figures_reference import ledger_of

PAIRS = [
    ("base", "trainer_fp32_lag0"),
    ("base", "trainer_fp32_lag8"),
    ("engine_fp32", "trainer_fp32"),
    ("engine_int8", "trainer_bf16"),
    ("lagged", "trainer_fp32_lag8"),
    ("train_async", "trainer_fp32"),
]


def reference(logs) -> float:
    """k-hat of weights by arviz-stats, without autocorrelation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(array_stats.psislw(-np.asarray(logs, dtype=np.float64), r_eff=1.0)[1])


def largest(logs) -> np.ndarray:
    return np.sort(logs)[-tail_length(len(logs)) - 1 :]


def dump_of(logs, tokens=1) -> pl.DataFrame:
    """One rollout per log-ratio, S, spread evenly over its tokens."""
    start = -1.0 - max(logs) / tokens
    inference = [[start] * tokens for _ in logs]
    trainer = [[start + log / tokens] * tokens for log in logs]
    schema = {name: pl.List(pl.Float32) for name in ("trainer_logprobs", "inference_logprobs")}
    return pl.DataFrame({"trainer_logprobs": trainer, "inference_logprobs": inference}, schema_overrides=schema)


@pytest.mark.parametrize("n", [50, 96, 225, 226, 384, 5000, 100_000])
@pytest.mark.parametrize("scale", [1e-4, 0.05, 1.0, 8.0])
@pytest.mark.parametrize("shape", ["normal", "student", "exponential"])
def test_the_fit(n, scale, shape):
    rng = np.random.default_rng(n)
    draw = {"normal": rng.normal, "student": lambda size: rng.standard_t(3, size), "exponential": rng.exponential}
    logs = draw[shape](size=n) * scale
    assert pareto_khat(largest(logs)) == pytest.approx(reference(logs), abs=1e-10)


@given(st.lists(st.floats(-30, 30, width=32), min_size=60, max_size=400, unique=True))
def test_the_fit_of_any_weights(logs):
    spread = np.sort(logs)[-tail_length(len(logs)) :]
    value = pareto_khat(largest(logs))
    # Closer together than this the reference, which subtracts weights and not logs, has lost their digits.
    if np.diff(spread).min() > 1e-3:
        assert value == pytest.approx(reference(logs), rel=1e-9, abs=1e-9)
    assert value is None or math.isfinite(value)


@pytest.mark.parametrize(("dump", "trainer"), PAIRS)
def test_real_dumps(dump, trainer, sample):
    paths = sample / dump / f"{trainer}.parquet", sample / dump / "vllm.parquet"
    sides = pl.read_parquet(paths[0]).join(pl.read_parquet(paths[1]), on="rollout_id", suffix="_vllm")
    both = (sides[name].to_list() for name in ("logprobs", "logprobs_vllm"))
    d = [np.array(p, np.float32) - np.array(q, np.float32) for p, q in zip(*both, strict=True)]
    d = [values.astype(np.float64) for values in d]
    khat = iscope.analyze(trainer=paths[0], vllm=paths[1], recipes=[]).mismatch["khat"]
    assert khat["token"]["value"] == pytest.approx(reference(np.concatenate(d)), abs=1e-10)
    assert khat["sequence"]["value"] == pytest.approx(reference([values.sum() for values in d]), abs=1e-10)
    assert khat["sequence"]["draws"] == len(d)
    assert khat["token"]["draws"] == sum(map(len, d))


def figures_of(logs, tokens=1):
    return iscope.analyze(dump_of(logs, tokens), recipes=[]).mismatch


def test_class_and_threshold():
    classes = {0.2: "good", 0.5: "ok", 0.69: "ok", 0.7: "bad", 0.99: "bad", 1.0: "very bad", 7.0: "very bad"}
    for value, name in classes.items():
        assert figure.Tail(iscope.Figure(value), 10**6, 3000).to_figures()["class"] == name
    assert threshold(10**6) == 0.7
    assert threshold(100) == pytest.approx(0.5)
    assert threshold(1) == -math.inf


def test_the_kept_tail_is_long_enough():
    assert tail_length(LARGEST_DUMP) + 1 <= KEPT < tail_length(LARGEST_DUMP + 10**6) + 1
    assert LARGEST_DUMP > 1.9e9


def test_beyond_what_the_kept_tail_covers_it_is_absent(monkeypatch):
    monkeypatch.setattr(figure, "LARGEST_DUMP", 99)
    khat = figures_of(np.linspace(-1, 1, 100))["khat"]
    assert khat["token"]["value"] is None
    assert "99 tokens" in khat["token"]["why"]
    assert khat["sequence"]["value"] is not None


def test_few_draws():
    for count, there in ((1, False), (49, False), (50, True)):
        khat = figures_of(np.linspace(-1, 1, count))["khat"]
        for level in ("token", "sequence"):
            assert (khat[level]["value"] is not None) is there
            assert there or "50 draws" in khat[level]["why"]


def test_equal_ratios():
    for log in (0.0, 0.25):
        mismatch = figures_of([log] * 300)
        for level in ("token", "sequence"):
            assert mismatch["khat"][level]["value"] is None
            assert "equal" in mismatch["khat"][level]["why"]
        assert mismatch["ratio"]["sequence"]["std"].value == pytest.approx(0.0, abs=1e-7)


def test_sums_that_leave_float64():
    logs = [*np.linspace(-800, 0, 400), 800.0]
    khat = figures_of(logs, tokens=2)["khat"]["sequence"]
    assert khat["value"] > 10
    assert khat["class"] == "very bad"


def test_a_light_tail_withholds_nothing():
    sequence = figures_of(np.random.default_rng(0).normal(0, 0.1, 400))["ratio"]["sequence"]
    assert sequence["mean"].value == pytest.approx(1.0, abs=0.02)
    assert sequence["std"].value == pytest.approx(0.1, abs=0.02)


def test_a_heavy_tail_withholds_moments_only(sample):
    folder = sample / "base"
    report = iscope.analyze(
        trainer=folder / "trainer_fp32_lag8.parquet", vllm=folder / "vllm.parquet", recipes=["trl/sequence_mask"]
    )
    for summary in (report.mismatch["ratio"]["sequence"], report.recipes[0].figures["raw"]):
        for name, word in (("mean", "no mean"), ("std", "second moment")):
            assert summary[name].value is None
            assert word in summary[name].why
            assert "k-hat" in summary[name].why
        assert all(summary[name].value is not None for name in ("min", "max", "p50", "outside_half_two"))
    assert report.mismatch["ratio"]["sequence"]["ess_fraction"].value > 0
    assert report.mismatch["ratio"]["token"]["mean"].value is not None
    applied = report.recipes[0].figures
    assert applied["applied"]["mean"].value is not None
    assert applied["effective_batch_size"]["value"] is not None


def test_current_over_inference_stands_beside():
    table = dump_of(np.linspace(-1, 1, 300)).with_columns(current_logprobs=pl.col("inference_logprobs"))
    khat = iscope.analyze(table, recipes=[]).mismatch["khat"]
    assert khat["sequence"]["value"] == pytest.approx(reference(np.linspace(-1, 1, 300)), abs=1e-4)
    assert "equal" in khat["current"]["token"]["why"]
    assert "current" not in iscope.analyze(dump_of([0.1]), recipes=[]).mismatch["khat"]


def test_part_of_a_dump_has_no_token_tail():
    rows = scored_rows(ledger_of([]))
    part = type(rows)(rows.frame, rows.histograms)
    assert "whole dump" in figure.token_tail(part, Pair.TRAINER_INFERENCE).khat.why
    assert build_report(ledger_of([])).mismatch["khat"]["token"]["value"] is None
