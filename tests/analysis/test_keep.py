"""keep(T): observed shares as the replay found them, chances as a plain reference gives them, lengths that keep 90%."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import iscope
from iscope.analysis.figures import keep
from iscope.analysis.growth import Growth
from iscope.analysis.lengths import Lengths
from iscope.analysis.rows import scored_rows
from iscope.model import Figure
from iscope.recipes.bounds import Band
from iscope.recipes.model import Level, Pair
from tests.analysis.test_figures_reference import ledger_of
from tests.reference import keep as reference
from tests.reference import slow
from tests.rollout_factory import rollouts

NARROW = "geometric_mask:0.996,1.001"
FRESH = [
    ("base", "trainer_fp32_lag0"),
    ("base", "trainer_bf16_lag0"),
    ("train_sync", "trainer_bf16"),
    ("train_sync", "trainer_fp32"),
    ("engine_fp16", "trainer_fp32"),
    ("engine_int8", "trainer_fp32"),
    ("engine_int8", "trainer_bf16"),
    ("temp07_processed", "trainer_fp32_t07"),
    ("lagged", "trainer_fp32_lag1"),
]
LAG_0 = [pair for pair in FRESH if "lag1" not in pair[1]] + [("engine_fp32", "trainer_fp32")]
REUSED = [("base", "trainer_fp32_lag1"), ("base", "trainer_fp32_lag8"), ("train_async", "trainer_fp32")]


def entries(sample, dump, trainer, *recipes):
    paths = {"trainer": sample / dump / f"{trainer}.parquet", "vllm": sample / dump / "vllm.parquet"}
    return [recipe.figures["keep_at_length"] for recipe in iscope.analyze(**paths, recipes=recipes).recipes]


def entry(table, recipe):
    (found,) = iscope.analyze(table, recipes=[recipe]).recipes[0].figures["keep_at_length"]
    return found


def dump_of(rows, **columns):
    schema = {name: pl.List(pl.Float32) for name in ("trainer_logprobs", "inference_logprobs")}
    start = -1.0 - max((d for row in rows for d in row), default=0.0)
    trainer, inference = [[start + d for d in row] for row in rows], [[start] * len(row) for row in rows]
    table = {"trainer_logprobs": trainer, "inference_logprobs": inference, **columns}
    return pl.DataFrame(table, schema_overrides=schema)


@given(drawn=rollouts(min_size=1, unusable=True), length=st.integers(1, 5000), geometric=st.booleans())
def test_the_chance(drawn, length, geometric):
    d = [tokens for r in drawn if (tokens := slow.differences(r))]
    every = [x for tokens in d for x in tokens]
    assume(every and np.std(every) > 1e-6)
    level = Level.GEOMETRIC if geometric else Level.SEQUENCE
    for low, high in ((-0.004, 0.001), (-math.inf, 0.3), (-1.0, math.inf), (-0.5, 0.5)):
        band = Band("x", 0, level, Pair.TRAINER_INFERENCE, low, high)
        rows = scored_rows(ledger_of(drawn))
        growth = Growth.of(rows, Pair.TRAINER_INFERENCE, Lengths.among(rows.n))
        found = growth.chance(np.array([length]), band)
        expected = reference.chance(d, low, high, length, geometric=geometric)
        assert found[0] == pytest.approx(expected, rel=1e-8, abs=1e-10)


def test_many_rollouts_stand_in_kinds(sample):
    """Kinds of rollouts and some lengths instead of all change a chance by less than a percent."""
    folder = sample / "train_sync"
    vllm, trainer = (pl.read_parquet(folder / name) for name in ("vllm.parquet", "trainer_fp32.parquet"))
    sides = trainer.join(vllm, on="rollout_id", suffix="_vllm")
    d = [
        [p - q for p, q in zip(*row, strict=True)]
        for row in zip(sides["logprobs"].to_list(), sides["logprobs_vllm"].to_list(), strict=True)
    ]
    (found,) = entries(sample, "train_sync", "trainer_fp32", NARROW)[0]
    for row in found["lengths"]:
        here = [tokens for tokens in d if row["low"] <= len(tokens) <= row["high"]]
        spread = sorted(len(tokens) for tokens in here)[:: max(1, len(here) // 16)]
        bounds = math.log(0.996), math.log(1.001)
        expected = np.mean([reference.chance(d, *bounds, length, geometric=True, among=here) for length in spread])
        assert row["predicted"].value == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(("dump", "trainer"), LAG_0)
def test_a_narrow_band_on_real_rollouts(dump, trainer, sample):
    """The observed shares of fresh rollouts, at every length, within 0.08."""
    (found,) = entries(sample, dump, trainer, NARROW)[0]
    for row in found["lengths"]:
        assert row["predicted"].value == pytest.approx(row["observed"].value, abs=0.08), row


def test_the_lengths_that_a_narrow_band_keeps(sample):
    (found,) = entries(sample, "base", "trainer_fp32_lag0", NARROW)[0]
    assert [row["rollouts"] for row in found["lengths"]] == [101, 125, 158]
    assert found["bound"] == {"low": 0.996, "high": 1.001}
    assert 1000 < found["keep_90"]["low"].value < 2000
    assert found["keep_90"]["high"].value is None


@pytest.mark.parametrize(("dump", "trainer"), FRESH)
def test_fresh_rollouts_agree_within_their_noise(dump, trainer, sample):
    for group in entries(sample, dump, trainer, NARROW, "geometric_mask:0.99,1.01", "trl/sequence_mask"):
        (found,) = group
        for row in found["lengths"]:
            predicted, observed, count = row["predicted"].value, row["observed"].value, row["rollouts"]
            error = math.sqrt(max(predicted * (1 - predicted), 0.25 / count) / count)
            assert abs(predicted - observed) < 0.08 + 2 * error, row
        whole = sum(row["rollouts"] for row in found["lengths"])
        kept = [
            sum(row[name].value * row["rollouts"] for row in found["lengths"]) for name in ("predicted", "observed")
        ]
        assert kept[0] / whole == pytest.approx(kept[1] / whole, abs=0.08)
        assert found["keep_90"]["basis"] == "chance"


@pytest.mark.parametrize(("dump", "trainer"), REUSED)
def test_rollouts_that_were_trained_on_are_not_extrapolated(dump, trainer, sample):
    (found,) = entries(sample, dump, trainer, "trl/sequence_mask")[0]
    assert found["keep_90"]["basis"] == "observed"
    shortest, longest = found["lengths"][0]["low"], found["lengths"][-1]["high"]
    for end in found["keep_90"].values():
        if isinstance(end, Figure) and end.value is not None:
            assert shortest <= end.value <= longest


def test_rounding_is_not_extrapolated(sample):
    (found,) = entries(sample, "engine_fp32", "trainer_fp32", NARROW)[0]
    assert found["keep_90"]["basis"] == "observed"
    assert found["keep_90"]["low"].value == found["lengths"][0]["low"]
    assert found["keep_90"]["high"].value == found["lengths"][-1]["high"]


@pytest.mark.parametrize(
    ("recipe", "name"),
    [
        ("trl/sequence_mask", "sequence_mask"),
        ("prime-rl/mis_po", "geo_mask"),
        ("verl/rollout_rs:option=seq_mean_k1,threshold=0.99_1.02", "seq_mean_k1"),
        ("skyrl/product:0.5,2", "product_mask"),
    ],
)
def test_observed_is_what_the_replay_found(recipe, name, sample):
    folder = sample / "base"
    report = iscope.analyze(
        trainer=folder / "trainer_fp32_lag0.parquet", vllm=folder / "vllm.parquet", recipes=[recipe]
    )
    (found,) = report.recipes[0].figures["keep_at_length"]
    rule = next(f for f in report.recipes[0].figures["masked"]["by_filter"] if f["name"] == found["filter"])
    held = sum(row["observed"].value * row["rollouts"] for row in found["lengths"])
    assert round(held) == 384 - rule["rollouts_low"] - rule["rollouts_high"]


def test_a_truncation_holds_where_it_does_not_cut():
    rows = [[0.2] * 10] * 30 + [[0.01] * 10] * 10
    found = entry(dump_of(rows), "prime-rl/seq_tis")
    assert (found["filter"], found["level"]) == ("truncation", "sequence")
    assert found["bound"] == {"low": None, "high": 2.0}
    assert found["lengths"][0]["observed"].value == 0.25


def test_verl_inverts_its_bounds():
    table = dump_of([[0.001, -0.002], [0.02, 0.03]])
    found = entry(table, "verl/rollout_rs:option=seq_mean_k1,threshold=0.8_2")
    assert found["bound"]["low"] == pytest.approx(0.5)
    assert found["bound"]["high"] == pytest.approx(1.25)


def test_short_rollouts_fail_a_mean_and_long_ones_a_sum():
    noise = np.random.default_rng(0).normal(-0.005, 0.1, (400, 64)).tolist()
    mean, total = (entry(dump_of(noise), recipe) for recipe in ("geometric_mask:0.99,1.01", "trl/sequence_mask:0.5,2"))
    assert mean["keep_90"]["low"].value > 64
    assert total["keep_90"]["low"].value == 1
    assert total["keep_90"]["high"].value < 64
    for found in (mean, total):
        for name in ("low", "high"):
            end = found["keep_90"][name].value
            if end not in (None, 1):
                variance = found["noise"].value ** 2
                growth = Growth(
                    found["drift"].value, variance, np.array([64]), np.array([[variance]]), np.ones((1, 1), np.int64)
                )
                low, high = (math.log(found["bound"][side]) for side in ("low", "high"))
                band = Band("x", 0, Level(found["level"]), Pair.TRAINER_INFERENCE, low, high)
                step = -1 if name == "low" else 1
                inside, outside = growth.chance(np.array([end - 4 * step, end + 4 * step]), band)
                assert inside > 0.88
                assert outside < 0.92


def test_signed_bounds_count_the_rollouts_they_are_in_force_for():
    rows = [[-0.3] * 4] * 3 + [[0.0] * 4] * 5
    table = dump_of(rows, advantage=[-1.0, -1.0, 1.0, -1.0, 1.0, 1.0, 1.0, 1.0])
    found = entry(table, "off_policy_sequence_mask:0.1")
    assert found["signs"] == "A<0"
    (row,) = found["lengths"]
    assert row["rollouts"] == 3
    assert row["observed"].value == pytest.approx(1 / 3)


def test_buckets_hold_a_hundred_rollouts_each():
    lengths = [1] * 150 + [2] * 15 + [5] * 90 + [9] * 125 + [40] * 20
    found = entry(dump_of([[0.01, -0.01][: length % 2 + 1] * length for length in lengths]), NARROW)
    assert all(row["rollouts"] >= 100 for row in found["lengths"])
    assert sum(row["rollouts"] for row in found["lengths"]) == len(lengths)


@pytest.mark.parametrize(
    "rows",
    [
        [[0.3]],
        [[0.0] * 5] * 3,
        [[0.25]] * 40,
        [[0.1], [-0.1]] * 15,
        [[400.0, 400.0], [-400.0, -400.0]],
        [[0.01, -0.02]] * 2 + [[]],
    ],
    ids=["one rollout", "equal", "equal tokens", "length 1", "S of 800", "an empty one"],
)
@pytest.mark.parametrize("recipe", [NARROW, "trl/sequence_mask:0.5,2", "prime-rl/seq_tis"])
def test_odd_dumps(rows, recipe):
    found = entry(dump_of(rows), recipe)
    assert sum(row["rollouts"] for row in found["lengths"]) == sum(bool(row) for row in rows)
    for row in found["lengths"]:
        assert 0 <= row["predicted"].value <= 1
        assert 0 <= row["observed"].value <= 1


def test_a_bound_that_no_ratio_reaches():
    found = entry(dump_of([[-0.3] * 4], advantage=[-1.0]), "off_policy_sequence_mask:5000")
    assert found["bound"] == {"low": 0.0, "high": None}
    assert found["lengths"][0]["observed"].value == 1.0


def test_each_rule_reads_its_own_pair():
    table = dump_of([[0.01, -0.02, 0.01]] * 4).with_columns(
        current_logprobs=pl.col("inference_logprobs").list.eval(pl.element() + 0.25)
    )
    ours, theirs = entry(table, NARROW), entry(table, "prime-rl/seq_mis")
    assert (ours["pair"], theirs["pair"]) == ("trainer/inference", "current/inference")
    assert ours["drift"].value == pytest.approx(0.0, abs=1e-6)
    assert theirs["drift"].value == pytest.approx(0.25, abs=1e-6)


def test_nothing_scored():
    found = entry(dump_of([[], []]), NARROW)
    assert found["lengths"] == []
    for figure in (found["drift"], found["noise"], found["keep_90"]["low"], found["keep_90"]["high"]):
        assert figure.value is None
        assert figure.why


def test_recipes_without_such_bounds_have_no_entry():
    table = dump_of([[0.01, -0.02]])
    for recipe in ("none", "icepop", "trl/token_mask", "trl/sequence_mask:clip_max=none", "off_policy_sequence_mask"):
        assert iscope.analyze(table, recipes=[recipe]).recipes[0].figures.get("keep_at_length", []) == []


def test_the_run_around_a_place():
    flags = np.array([True, False, True, True, False, True])
    assert [keep._run(flags, at) for at in (0, 2, 3, 5)] == [(0, 0), (2, 3), (2, 3), (5, 5)]
