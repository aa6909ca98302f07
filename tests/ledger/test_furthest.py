"""The rollouts furthest from 0: those that a sort of the whole dump finds, however the dump is cut."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iscope import analyze
from iscope.dump import open_dump
from iscope.engines import local
from iscope.ledger import furthest as module
from iscope.ledger import sample, store
from iscope.ledger.ledger import Ledger
from iscope.ledger.plan import Plan
from tests.ledger.test_sample import same

# Few distinct sums, so that many rollouts tie.
VALUES = st.sampled_from([-2.0, -1.5, -1.0, -0.5, math.nan])
ROLLOUTS = st.lists(st.lists(st.tuples(VALUES, st.booleans()), max_size=4), min_size=1, max_size=40)


def table_of(drawn: list[list[tuple[float, bool]]]) -> pl.DataFrame:
    kinds = pl.List(pl.Float32)
    return pl.DataFrame(
        {
            "rollout_id": [f"r{row:02}" for row in range(len(drawn))],
            "trainer_logprobs": pl.Series([[value for value, _ in tokens] for tokens in drawn], dtype=kinds),
            "inference_logprobs": pl.Series([[-1.0] * len(tokens) for tokens in drawn], dtype=kinds),
            "loss_mask": pl.Series([[mask for _, mask in tokens] for tokens in drawn], dtype=pl.List(pl.Boolean)),
        }
    )


def ledger_of(table: pl.DataFrame, batch_tokens: int = 2**20) -> Ledger:
    return local.run(open_dump([table], batch_tokens=batch_tokens).batches(), Plan(()))


@settings(max_examples=20, deadline=None)
@given(ROLLOUTS, st.integers(1, 12), st.randoms(use_true_random=False))
def test_they_are_what_a_sort_finds_in_any_order_and_in_parts(
    drawn: list[list[tuple[float, bool]]], batch_tokens: int, random: Any
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROLLOUTS", 5)
        table = table_of(drawn)
        found = ledger_of(table).furthest
        sums = {
            f"r{row:02}": abs(sum(value + 1.0 for value, mask in tokens if mask and value == value))
            for row, tokens in enumerate(drawn)
            if any(mask and value == value for value, mask in tokens)
        }
        assert [sums[name] for name in found.rollouts["rollout_id"]] == sorted(sums.values(), reverse=True)[:5]
        order = random.sample(range(table.height), table.height)
        same(found, ledger_of(table[order], batch_tokens).furthest)
        cut = random.randint(0, table.height - 1)
        if cut > 0:
            same(found, ledger_of(table[order[:cut]]).merge(ledger_of(table[order[cut:]])).furthest)


def test_their_tokens_are_those_of_the_dump(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    drawn = [[(float(np.float32(-rng.exponential())), bool(rng.random() < 0.8)) for _ in range(9)] for _ in range(200)]
    table = table_of(drawn)
    ledger = ledger_of(table, 100)
    found = ledger.furthest
    assert len(found) == 20
    for row, name in enumerate(found.rollouts["rollout_id"]):
        tokens = drawn[int(name[1:])]
        place = slice(found.offsets[row], found.offsets[row + 1])
        assert found.lists["trainer_logprobs"][place].tolist() == [value for value, _ in tokens]
        assert found.lists["loss_mask"][place].tolist() == [mask for _, mask in tokens]
    store.save(ledger, tmp_path / "l")
    same(found, store.load(tmp_path / "l").furthest)


def test_the_worst_of_a_dump_larger_than_the_sample_have_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    drawn = [[(float(np.float32(-rng.exponential())), True) for _ in range(10)] for _ in range(300)]
    table = table_of(drawn).with_columns(token_ids=pl.Series([[row] * 10 for row in range(300)]))
    whole: Any = analyze(table, recipes=["none"]).parts["worst"]
    monkeypatch.setattr(sample, "TOKENS", 200)
    few: Any = analyze(table, recipes=["none"]).parts["worst"]
    assert few["tokens_looked_at"] <= 200
    assert few["rollouts"] == whole["rollouts"]
    for row in few["rollouts"]:
        assert row["strip"]["token_ids"] == [int(row["rollout_id"][1:])] * 10
