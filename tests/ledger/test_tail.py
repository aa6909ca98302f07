"""The kept tail: the same multiset whatever the order, the batches, the threads and the merging."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from iscope.dump import open_dump
from iscope.engines import local
from iscope.ledger import store, tail
from iscope.ledger.plan import Plan
from iscope.ledger.tail import BatchTail, TailBuilder, merge_tails
from iscope.recipes.model import Pair
from iscope.rollouts import RolloutBatch

PAIR = Pair.TRAINER_INFERENCE
KEPT = 8
values = st.lists(st.sampled_from(np.linspace(-1, 1, 41, dtype=np.float32).tolist()), max_size=20)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(tail, "KEPT", KEPT)


def collected(batches):
    """The tail of batches of log-ratios, each cut at the floor of its time, and the floors on the way."""
    builder, floors = TailBuilder(), []
    for batch in batches:
        view = BatchTail(builder.floors)
        view.add(_Block(batch), [PAIR, Pair.CURRENT_TRAINER])
        builder.add(view.tails())
        floors.append(builder.floors.get(str(PAIR), -np.inf))
    return builder.finish(), floors


class _Block:
    """Stands for a view of tokens: all that a tail reads of it is the log-ratio."""

    def __init__(self, d):
        self._d = torch.from_numpy(np.array(d, dtype=np.float32))

    def log_ratio(self, pair):
        assert pair is PAIR
        return self._d


@given(st.lists(values, min_size=1, max_size=12))
def test_it_is_the_largest_whatever_the_batches(batches):
    kept, floors = collected(batches)
    every = sorted(d for batch in batches for d in batch)
    assert kept[str(PAIR)].tolist() == every[-KEPT:]
    assert floors == sorted(floors)
    assert set(kept) == {str(PAIR)}


@given(st.lists(st.sampled_from(np.linspace(-1, 1, 41, dtype=np.float32).tolist()), max_size=200))
def test_a_batch_may_have_a_floor_of_its_own(batch):
    d = np.array(batch, dtype=np.float32)
    floor = BatchTail().floor(PAIR, d)
    above = sorted(d[d > floor].tolist())
    assert above[-KEPT:] == sorted(batch)[-KEPT:]
    assert BatchTail({str(PAIR): 0.5}).floor(PAIR, d) == 0.5
    assert BatchTail().floor(Pair.CURRENT_TRAINER, d) == np.inf


def test_the_floor_of_a_large_batch_leaves_little_above_it():
    d = np.random.default_rng(0).normal(size=10_000).astype(np.float32)
    assert KEPT <= (d > BatchTail().floor(PAIR, d)).sum() < 10 * KEPT


@given(st.lists(values, min_size=2, max_size=12), st.integers(1, 11))
def test_merging(batches, cut):
    parts = [collected(part)[0] for part in (batches[:cut], batches[cut:]) if part]
    merged = merge_tails(parts)
    assert merged[str(PAIR)].tolist() == collected(batches)[0][str(PAIR)].tolist()


@given(st.lists(values, min_size=1, max_size=12), st.data())
def test_a_batch_may_be_cut_at_an_older_floor(batches, data):
    """Threads cut their batches at the floor of when they began."""
    builder, history = TailBuilder(), [{}]
    for batch in batches:
        view = BatchTail(history[data.draw(st.integers(0, len(history) - 1))])
        view.add(_Block(batch), [PAIR])
        builder.add(view.tails())
        history.append(dict(builder.floors))
    assert builder.finish()[str(PAIR)].tolist() == sorted(d for batch in batches for d in batch)[-KEPT:]


def batches_of(d, size):
    parts = [d[first : first + size] for first in range(0, len(d), size)]
    return [RolloutBatch.from_lists([[-2.0 + x] for x in part], [[-2.0]] * len(part)) for part in parts]


def test_a_pass_over_many_batches_in_threads(tmp_path):
    d = np.random.default_rng(0).normal(0, 0.25, 500).astype(np.float32)
    exact = np.sort(((np.float32(-2) + d) - np.float32(-2)).astype(np.float32))[-KEPT:]
    for size in (1, 7, 500):
        ledger = local.run(open_dump(batches_of(d.tolist(), size), batch_tokens=size).batches(), Plan(()))
        assert ledger.tails[str(PAIR)].tolist() == exact.tolist()
    store.save(ledger, tmp_path / "a.ledger")
    loaded = store.load(tmp_path / "a.ledger").tails[str(PAIR)]
    assert loaded.tolist() == exact.tolist()
    assert loaded.dtype == np.float32
