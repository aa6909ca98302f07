"""The settings of a sweep have the figures of ``analyze`` at these settings, however each was measured."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iscope.comparison import compare
from iscope.ledger.sweep.scheme import scheme_of
from iscope.recipes.grammar import parse
from iscope.recipes.sweep import expand
from tests.compare.equal import hold
from tests.rollout_factory import batch_of, rollouts

TRL = ["trl/token_mask", "trl/sequence_mask", "trl/token_truncate", "trl/sequence_truncate"]
CASES = {
    "trl": (TRL, ["clip_max=1.5,2,5", "clip_min=0.1,.8,none"]),
    "losses": (
        [
            "trl/token_mask:loss_type=grpo",
            "trl/sequence_mask:loss_type=grpo",
            "trl/token_truncate:loss_type=dr_grpo",
            "trl/token_mask:loss_type=sapo",
            "trl/sequence_mask:importance_sampling_level=sequence",
        ],
        ["clip_max=1.2,3"],
    ),
    "papers": (
        ["icepop", "kpop", "dppo_tv", "geometric_mask", "trust_region_mask"],
        ["high=2,5", "low=.2,.5", "delta_low=.1,.3", "delta_high=.2,.4", "phi=.1,.2"],
    ),
    "prime-rl": (
        ["prime-rl/ipo", "prime-rl/seq_tis", "prime-rl/seq_mis", "prime-rl/mis_po"],
        ["eps=.05,.1,.3", "seq_clip=1.5,3", "geo_mask_low=0.9,0.99", "token_mask_high=1.5,3"],
    ),
    "verl": (
        ["verl/rollout_is:level=sequence", "verl/rollout_is:level=token", "verl/rollout_is:batch_normalize=true"],
        ["threshold=1.5,2,3"],
    ),
    "others": (["nemo-rl/tis", "nemo-rl/icepop", "slime/tis", "skyrl/tis"], ["high=2,4", "low=.3,.6"]),
}


@pytest.fixture(autouse=True)
def _no_intervals(monkeypatch):
    """They and the frameworks' metrics cost more than all else, and settings of a sweep have neither."""
    none = "iscope.analysis.intervals.deferred.intervals"
    monkeypatch.setattr(none, lambda _, of, __: np.full((len(of), 2), np.nan))
    monkeypatch.setattr("iscope.analysis.report.framework_metrics", lambda *_: {})


def sides(folder, trainer):
    return {"trainer": folder / f"{trainer}.parquet", "vllm": folder / "vllm.parquet"}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["rollouts", "rollouts_nan", "rollouts_extreme"])
def test_on_ordinary_unscorable_and_extreme_rollouts(case, name, golden):
    recipes, sweep = CASES[case]
    known = [recipe for recipe in recipes if _takes(recipe, sweep)]
    hold(
        {}, known, [one for one in sweep if any(_takes(recipe, [one]) for recipe in known)], golden / f"{name}.parquet"
    )


def _takes(recipe, sweep):
    options = parse(recipe).options
    return any(one.partition("=")[0] in options for one in sweep)


@pytest.mark.parametrize(
    "options", [{"precision": "float64"}, {"batch": "2"}, {"batch": "step"}, {"unscored": "neutral"}], ids=str
)
def test_whatever_the_options(options, golden):
    for name in ("rollouts", "rollouts_nan"):
        hold({}, TRL, CASES["trl"][1], golden / f"{name}.parquet", **options)


@pytest.mark.parametrize(
    ("dump", "trainer"),
    [("lagged", "trainer_fp32_lag8"), ("temp07_processed", "trainer_fp32"), ("train_async", "trainer_fp32")],
)
def test_on_real_dumps(dump, trainer, sample):
    hold(sides(sample / dump, trainer), [*TRL, "prime-rl/mis_po"], ["clip_max=1.5,3", "geo_mask_low=.9,.99"])


def test_two_hundred_settings_of_tokens_and_two_hundred_of_rollouts(sample):
    sweep = ["clip_max=1.2:12:20:log", "clip_min=0.05:0.95:10"]
    report = hold(sides(sample / "engine_int8", "trainer_bf16"), ["trl/token_mask", "trl/sequence_mask"], sweep)
    assert report.parts["settings"]["tried"] == 400
    assert report.parts["settings"]["replayed"] == 0


@settings(max_examples=25)
@given(drawn=rollouts(min_size=1, max_size=10, unusable=True), grouped=st.booleans())
def test_on_anything(drawn, grouped):
    batch = batch_of(drawn)
    if grouped:
        groups = pl.Series("group_id", [f"g{index % 3}" for index in range(len(drawn))])
        batch = batch.__class__(**{**vars(batch), "columns": batch.columns.with_columns(groups)})
    recipes = [*TRL, "prime-rl/ipo", "prime-rl/mis_po", "verl/rollout_is:level=token"]
    hold({}, recipes, ["clip_max=1,1.5,2.5", "clip_min=0.2,.7", "eps=.1,.3", "geo_mask_low=.5,.99"], batch)


def test_on_nothing(golden):
    empty = pl.read_parquet(golden / "rollouts.parquet").with_columns(
        loss_mask=pl.col("loss_mask").list.eval(pl.element() & False)
    )
    hold({}, TRL, ["clip_max=1.5,2"], empty)


def test_without_advantages(golden):
    table = pl.read_parquet(golden / "rollouts.parquet").drop("advantage", "reward")
    report = hold({}, [*TRL, "dppo_tv"], ["clip_max=1.5,2", "delta_low=.1,.2"], table)
    assert report.parts["advice"]["rule"] == "no_advice"


def test_with_advantages_per_token(golden):
    table = pl.read_parquet(golden / "rollouts.parquet").with_columns(
        advantage=pl.col("trainer_logprobs").list.eval(pl.element().sin())
    )
    hold({}, TRL, ["clip_max=1.5,2"], table)


def test_how_settings_are_measured():
    found = expand(
        [parse(spec) for spec in ("none", "trl/token_mask", "trl/sequence_mask", "prime-rl/mis_po", "kpop")],
        ["clip_max=1.5,2", "geo_mask_low=.9,.99", "phi=.1,.2"],
    )
    scheme = scheme_of(found.recipes, found.swept)
    kinds = dict(zip((recipe.name for recipe in found.recipes), (place.kind for place in scheme.places), strict=True))
    assert kinds == {
        "none": "plain",
        "trl/token_mask": "tokens",
        "trl/sequence_mask": "rollouts",
        "prime-rl/mis_po": "rollouts",
        "kpop": "plain",
    }
    assert scheme.replayed == 2
    assert scheme.shown == [0]


def test_the_same_whatever_the_batches(sample):
    """A pass in small batches gives the same figures; rows do not depend on batches, sums up to rounding do."""
    import iscope.dump.opening as opening

    source = sides(sample / "engine_int8", "trainer_bf16")
    kept = opening.open_dump.__kwdefaults__["batch_tokens"]
    whole = compare(**source, recipes=TRL, sweep=["clip_max=1.5,3"])
    try:
        opening.open_dump.__kwdefaults__["batch_tokens"] = 2000
        parts = compare(**source, recipes=TRL, sweep=["clip_max=1.5,3"])
    finally:
        opening.open_dump.__kwdefaults__["batch_tokens"] = kept
    from tests.compare.equal import differences

    for one, other in zip(parts.recipes, whole.recipes, strict=True):
        assert differences(one, other) == []
