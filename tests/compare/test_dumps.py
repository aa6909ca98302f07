"""Comparisons of and on dumps: the advice on real and made-up ones, two dumps side by side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import iscope
from iscope.comparison import compare
from tests.findings.factory import healthy, noise_of

TOKENS = ["trl/token_mask", "trl/token_truncate"]
EVERY = [*TOKENS, "trl/sequence_mask", "prime-rl/mis_po"]
SWEEP = ["clip_max=1.5,2,3,5", "clip_min=0.2,0.5"]

# What real dumps are advised: nothing but a fuse where uncorrected little is weighted otherwise than by the product.
DUE = {
    ("base", "trainer_fp32_lag0"): "lowest_k3",
    ("base", "trainer_fp32_lag8"): "no_mask_repairs",
    ("engine_fp16", "trainer_fp32"): "fuse",
    ("engine_fp32", "trainer_fp32"): "fuse",
    ("engine_int8", "trainer_bf16"): "no_mask_repairs",
    ("lagged", "trainer_fp32_lag8"): "no_mask_repairs",
    ("temp07_processed", "trainer_fp32"): "fix_first",
    ("train_async", "trainer_fp32"): "no_mask_repairs",
}


def sides(sample, dump, trainer):
    return {"trainer": sample / dump / f"{trainer}.parquet", "vllm": sample / dump / "vllm.parquet"}


@pytest.mark.parametrize(("dump", "trainer"), DUE, ids="/".join)
def test_the_advice_on_real_dumps(dump, trainer, sample):
    report = compare(**sides(sample, dump, trainer), recipes=EVERY, sweep=SWEEP)
    advice = report.parts["advice"]
    assert advice["rule"] == DUE[dump, trainer], advice
    assert advice["sentences"]
    if advice["spec"]:
        assert advice["spec"] in {entry.spec for entry in report.recipes}
        assert advice["config"], advice["notes"]


def test_a_healthy_run_needs_no_more_than_a_fuse():
    advice = compare(healthy(noise=0.02, groups=40).table(), recipes=TOKENS, sweep=SWEEP).parts["advice"]
    assert advice["rule"] == "fuse"


def test_bounds_narrower_than_the_noise_are_named():
    dump = healthy(noise=0.1, groups=40, length=400).table()
    advice = compare(dump, recipes=["prime-rl/mis_po"], sweep=["geo_mask_low=0.998,0.999"]).parts["advice"]
    assert advice["rule"] == "none_qualifies"
    assert "narrower than the noise" in " ".join(advice["sentences"])


def test_one_bad_group_costs_that_group_alone():
    """The mask takes the bad group; every other setting's share of groups says so."""
    rollouts = healthy(noise=0.02, groups=40)
    rng = np.random.default_rng(1)
    bad = [
        v + noise_of(v, 0.6, rng) if group == "g007" else t
        for t, v, group in zip(rollouts.trainer, rollouts.inference, rollouts.columns["group_id"], strict=True)
    ]
    report = compare(
        replace(rollouts, trainer=bad).table(), recipes=["none", "trl/sequence_mask:clip_min=0.5,clip_max=2"]
    )
    groups = report.recipes[1].figures["groups_with_both_signs"]
    assert groups["total"] - groups["kept"] <= 1
    assert report.parts["advice"]["rule"] == "fuse"


def test_figures_to_rank_by_and_to_require(sample):
    source = sides(sample, "engine_int8", "trainer_bf16")
    report = compare(**source, recipes=TOKENS, sweep=SWEEP, rank_by="product_left", require="gradient_left.all >= 0.97")
    left = [entry.figures["gradient_left"]["all"].value for entry in report.recipes]
    assert min(left) >= 0.97
    assert 0 < len(left) < 16
    product = [entry.figures["product_left"].value for entry in report.recipes]
    assert product == sorted(product)
    assert report.parts["settings"]["met"] == len(left)
    assert {point["spec"] for point in report.parts["front"]} <= {entry.spec for entry in report.recipes}


def test_staleness_has_the_lags_of_the_dump_and_no_other(sample):
    report = compare(**sides(sample, "train_async", "trainer_fp32"), recipes=["none", "trl/sequence_mask"])
    rows = report.parts["staleness"]
    assert [row["value"] for row in rows] == [0, 1, 3]
    assert rows[0]["k3_parts"]["engine"].value == rows[0]["k3"].value
    assert rows[1]["k3_parts"]["engine"].value is None
    assert [entry["spec"] for entry in rows[2]["recipes"]] == [entry.spec for entry in report.recipes]


def test_engine_and_lag_apart_where_there_are_current_logprobs(golden):
    import polars as pl

    table = pl.read_parquet(golden / "rollouts.parquet").with_columns(
        trainer_version=pl.col("policy_version") + (pl.int_range(pl.len()) % 2)
    )
    parts = compare(table, recipes=["none"]).parts["staleness"]
    whole = iscope.analyze(table.filter(pl.col("trainer_version") > pl.col("policy_version")), recipes=["none"])
    of_lag = whole.mismatch["lag"]["parts"]
    for name in ("engine", "lag", "total"):
        assert parts[1]["k3_parts"][name].value == pytest.approx(of_lag[name]["k3"].value, rel=1e-12)


def test_the_report_survives_json(sample):
    report = compare(**sides(sample, "engine_int8", "trainer_bf16"), recipes=EVERY, sweep=SWEEP)
    assert iscope.Report.from_dict(report.to_dict()).to_dict() == report.to_dict()


def against(sample, here, there):
    mine, theirs = sides(sample, *here), sides(sample, *there)
    report = compare(
        **mine, against_trainer=theirs["trainer"], against_vllm=theirs["vllm"], recipes=["none", "trl/sequence_mask"]
    )
    found = report.parts["against"]
    rows = {row["path"]: row for row in found["figures"]}
    return found, rows, " ".join(found["changed"])


def test_a_quantised_engine(sample):
    found, rows, words = against(sample, ("engine_int8", "trainer_bf16"), ("base", "trainer_bf16_lag0"))
    assert found["pairing"]["kind"] == "none"
    assert rows["mismatch.k3"]["difference"].low > 0
    assert "20 times" in words
    assert "quantised engine" in words


@pytest.mark.parametrize(
    ("dump", "due"), [("base", "The numerator was trained on these rollouts"), ("lagged", "Policy lag")]
)
def test_lag_eight(dump, due, sample):
    found, rows, words = against(sample, (dump, "trainer_fp32_lag8"), ("base", "trainer_fp32_lag0"))
    assert rows["mismatch.k3"]["difference"].low > 0
    assert due in words
    if dump == "base":
        assert found["pairing"]["kind"] == "tokens"
        assert found["pairing"]["rollouts"] == 384


def test_the_drift_of_a_trainer_in_fp32(sample):
    _, rows, words = against(sample, ("train_sync", "trainer_fp32"), ("train_sync", "trainer_bf16"))
    assert rows["mismatch.k3"]["difference"].low > 0
    assert "from 0.0017 in the first two to 0.011 in the last two here" in words
    assert "from 0.0019 in the first two to 0.002 in the last two there" in words


def test_the_wrong_temperature(sample):
    _, _, words = against(sample, ("temp07_processed", "trainer_fp32"), ("temp07_processed", "trainer_fp32_t07"))
    assert "Temperature: the sides are scored at different ones" in words


def test_a_dump_against_itself(sample):
    found, rows, words = against(sample, ("base", "trainer_fp32_lag1"), ("base", "trainer_fp32_lag1"))
    assert all(row["difference"].value in (0, None) for row in found["figures"])
    assert rows["mismatch.k3"]["difference"].low == rows["mismatch.k3"]["difference"].high == 0
    assert "no difference beyond chance" in words
    assert "only" not in words


def test_token_ids_decide_about_pairs(sample_data):
    import polars as pl

    table = pl.read_parquet(sample_data / "train_async.parquet")
    same = compare(table, against=table, recipes=["none"]).parts["against"]["pairing"]
    assert (same["kind"], same["rollouts"]) == ("tokens", 416)
    other = table.with_columns(pl.col("token_ids").list.eval(pl.element() + 1))
    differ = compare(table, against=other, recipes=["none"]).parts["against"]["pairing"]
    assert differ["kind"] == "none"
    assert "416 rollouts share a rollout_id but not their tokens" in differ["why"]
    prompts = pl.Series("prompt_ids", [[int(row) // 8] for row in range(416)])
    by_prompt = compare(table.with_columns(prompts), against=other.with_columns(prompts), recipes=["none"])
    assert by_prompt.parts["against"]["pairing"]["kind"] == "prompts"


def test_the_interval_covers_the_difference_of_two_known_dumps():
    """k3 of d with standard deviation s (1 - q) is known, and so is its difference."""
    many = [_log_ratios(healthy(900, noise=noise, groups=400)) for noise in (0.06, 0.05)]
    k3 = [np.mean(np.expm1(d) - d) for d in many]
    covered = 0
    for seed in range(20):
        here, there = (healthy(seed + place, noise=noise, groups=20) for place, noise in ((0, 0.06), (50, 0.05)))
        found = compare(here.table(), against=there.table(), recipes=["none"]).parts["against"]["figures"]
        difference = next(row["difference"] for row in found if row["path"] == "mismatch.k3")
        covered += difference.low <= k3[0] - k3[1] <= difference.high
    assert covered >= 16


def _log_ratios(rollouts):
    return np.concatenate(rollouts.trainer) - np.concatenate(rollouts.inference)


def test_what_is_of_one_dump(sample):
    source = sides(sample, "base", "trainer_fp32_lag0")
    with pytest.raises(iscope.UsageError, match="with another dump"):
        compare(**source, against_trainer=source["trainer"], sweep="clip_max=2", recipes=["trl/token_mask"])


def test_the_off_policy_reward_is_withheld_where_one_rollout_decides(sample):
    report = compare(**sides(sample, "train_async", "trainer_fp32"), recipes=["none"])
    assert "one rollout holds 90% of all exp(S)" in report.parts["settings"]["off_policy_reward"].why


def test_the_off_policy_reward_of_fresh_rollouts():
    rollouts = healthy(noise=0.03, groups=60)
    reward = np.random.default_rng(3).random(len(rollouts)).tolist()
    found = compare(rollouts.with_columns(reward=reward).table(), recipes=["none"]).parts["settings"]
    sums = [
        float(np.sum(np.float32(t) - np.float32(v))) for t, v in zip(rollouts.trainer, rollouts.inference, strict=True)
    ]
    expected = np.average(reward, weights=np.exp(sums))
    assert found["off_policy_reward"].value == pytest.approx(expected, rel=1e-5)
    assert found["off_policy_reward"].low < expected < found["off_policy_reward"].high
    assert compare(rollouts.table(), recipes=["none"]).parts["settings"]["off_policy_reward"].why == (
        "the dump has no reward column"
    )


def test_the_off_policy_reward_of_rollouts_trained_on(sample):
    report = compare(**sides(sample, "base", "trainer_fp32_lag1"), recipes=["none"])
    assert report.parts["settings"]["off_policy_reward"].value is None
