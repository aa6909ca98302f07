"""The sample of whole rollouts: the same however the dump is cut, bounded, and what it says it is."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iscope.dump import open_dump
from iscope.engines import local
from iscope.ledger import sample as module
from iscope.ledger import store
from iscope.ledger.plan import Plan
from iscope.ledger.sample import Sample
from tests.findings.factory import healthy


def sample_of(table: pl.DataFrame, batch_tokens=2**20) -> Sample:
    return ledger_of(table, batch_tokens).sample


def ledger_of(table: pl.DataFrame, batch_tokens=2**20):
    return local.run(open_dump([table], batch_tokens=batch_tokens).batches(), Plan(()))


def same(one: Sample, other: Sample) -> None:
    assert one.rollouts.equals(other.rollouts)
    assert np.array_equal(one.offsets, other.offsets)
    assert one.lists.keys() == other.lists.keys()
    for name, values in one.lists.items():
        assert np.array_equal(values, other.lists[name], equal_nan=True), name


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(module, "TOKENS", 3000)


@pytest.mark.usefixtures("small")
def test_order_and_batches_change_nothing():
    table = healthy().table()
    whole = sample_of(table)
    same(whole, sample_of(table[np.random.default_rng(0).permutation(table.height)], 700))


@pytest.mark.usefixtures("small")
def test_merging_parts_changes_nothing():
    table = healthy().table()
    same(sample_of(table), sample_of(table[:50]).merge(sample_of(table[50:])))


@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=4),
    grouped=st.booleans(),
    seed=st.integers(0, 9),
)
def test_full_samples_merge_exactly(lengths, cuts, grouped, seed):
    """Whatever the lengths: the rollout that fills a sample is in it."""
    values = [np.random.default_rng([seed, i]).normal(-1, 0.3, n).tolist() for i, n in enumerate(lengths)]
    schema = {name: pl.List(pl.Float32) for name in ("trainer_logprobs", "inference_logprobs")}
    data = {"trainer_logprobs": values, "inference_logprobs": [[x - 0.01 for x in row] for row in values]}
    table = pl.DataFrame(data | {"rollout_id": [str(i) for i in range(len(lengths))]}, schema_overrides=schema)
    if grouped:
        table = table.with_columns(group_id=pl.int_range(pl.len()) // 3)
    edges = sorted({0, table.height, *(min(cut, table.height) for cut in cuts)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "TOKENS", 60)
        found = Sample.empty()
        for first, last in pairwise(edges):
            found = sample_of(table[first:last]).merge(found)
        same(sample_of(table, 50), found)


@pytest.mark.usefixtures("small")
def test_it_holds_whole_groups_as_they_are_in_the_dump():
    table = healthy().table()
    found = sample_of(table, 900)
    assert 3000 <= found.tokens < 3000 + table["trainer_logprobs"].list.len().max()
    rows = {row["rollout_id"]: row for row in table.iter_rows(named=True)}
    for index, rollout in enumerate(found.rollouts["rollout_id"]):
        place = slice(found.offsets[index], found.offsets[index + 1])
        for name in ("trainer_logprobs", "inference_logprobs", "loss_mask"):
            assert np.array_equal(found.lists[name][place], np.array(rows[rollout][name], found.lists[name].dtype))
    sizes = found.rollouts.group_by("group_id").len()["len"]
    assert (sizes == 8).sum() >= sizes.len() - 1


def test_a_small_dump_is_in_it_whole():
    table = healthy().table()
    found = sample_of(table)
    assert len(found) == table.height
    assert found.tokens == table["trainer_logprobs"].list.len().sum()


@pytest.mark.usefixtures("small")
def test_one_rollout_longer_than_the_budget_is_in_it():
    values = [-0.5] * 4000
    table = pl.DataFrame({"rollout_id": ["a"], "trainer_logprobs": [values], "inference_logprobs": [values]})
    assert sample_of(table).tokens == 4000


def test_the_number_of_rollouts_is_bounded_too(monkeypatch):
    monkeypatch.setattr(module, "ROLLOUTS", 20)
    table = healthy().table().drop("group_id")
    same(sample_of(table), sample_of(table, 500))
    assert len(sample_of(table)) == 20


def test_rollouts_without_groups_and_unusable_values(tmp_path):
    table = pl.DataFrame(
        {
            "rollout_id": ["a", "b", "c"],
            "group_id": ["g", None, "g"],
            "trainer_logprobs": [[-0.5, None], [], [-0.1]],
            "inference_logprobs": [[-0.4, -9999.0], [], [float("nan")]],
        },
        schema_overrides={"trainer_logprobs": pl.List(pl.Float32), "inference_logprobs": pl.List(pl.Float32)},
    )
    ledger = ledger_of(table)
    assert sorted(ledger.sample.rollouts["rollout_id"]) == ["a", "b", "c"]
    store.save(ledger, tmp_path / "ledger")
    same(ledger.sample, store.load(tmp_path / "ledger").sample)


def test_nothing():
    table = healthy().table()
    whole = sample_of(table)
    same(whole, whole.merge(Sample.empty()))
    same(whole, Sample.empty().merge(whole))
    same(Sample.empty(), Sample.empty().merge(Sample.empty()))
