"""What must not change a bit of a ledger, or a byte of a report: how the dump is split, ordered, batched or padded."""

from __future__ import annotations

import tempfile
from pathlib import Path

import polars as pl
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iscope.analysis.report import build_report
from iscope.dump import open_dump
from iscope.engines import local
from iscope.ledger import store
from iscope.ledger.ledger import Ledger
from iscope.ledger.plan import Plan
from iscope.ledger.rows import LedgerRows
from iscope.recipes.grammar import parse
from iscope.rollouts import RolloutBatch
from tests.rollout_factory import rollouts, table_of

RECIPES = ("none", "trl/token_mask:0.5,2", "trl/token_truncate:clip_max=2", "trl/sequence_mask", "geometric_mask")
PLAN = Plan(tuple(parse(recipe) for recipe in RECIPES))
few = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])


def ledger_of(*sources, batch_tokens=2**19) -> Ledger:
    return local.run(open_dump(list(sources), batch_tokens=batch_tokens).batches(), PLAN)


def same(one: Ledger, other: Ledger) -> None:
    assert one.rows.equals(other.rows)
    assert one.trained.equals(other.trained)
    assert {k: v.tolist() for k, v in one.histograms.items()} == {k: v.tolist() for k, v in other.histograms.items()}
    assert {k: v.tolist() for k, v in one.tails.items()} == {k: v.tolist() for k, v in other.tails.items()}
    assert (one.unscored, one.rounded_positive) == (other.unscored, other.rounded_positive)
    assert build_report(one).to_dict() == build_report(other).to_dict()


@few
@given(drawn=rollouts(min_size=1, unusable=True), data=st.data())
def test_files_row_groups_order_and_batch_size(drawn, data, tmp_path: Path):
    table = table_of(drawn)
    whole = ledger_of(table)
    shuffled = table[data.draw(st.permutations(range(table.height)))]
    cut = data.draw(st.integers(0, table.height))
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    for name, part in (("a", shuffled[:cut]), ("b", shuffled[cut:])):
        part.write_parquet(folder / f"{name}.parquet", row_group_size=data.draw(st.integers(1, 4)))
    same(whole, ledger_of(folder, batch_tokens=data.draw(st.integers(1, 30))))


@few
@given(drawn=rollouts(min_size=2, unusable=True), data=st.data())
def test_merging_ledgers_of_parts(drawn, data):
    table = table_of(drawn)
    cut = data.draw(st.integers(1, table.height - 1))
    first, second = ledger_of(table[:cut]), ledger_of(table[cut:])
    same(ledger_of(table), first.merge(second))
    same(ledger_of(table), second.merge(first))


@few
@given(drawn=rollouts(min_size=1, unusable=True), extra=st.integers(0, 3))
def test_padding(drawn, extra):
    width = max(len(r["trainer"]) for r in drawn) + extra
    pad = float("nan")

    def padded(name, fill, dtype):
        return torch.tensor([r[name] + [fill] * (width - len(r[name])) for r in drawn], dtype=dtype)

    table = table_of(drawn)
    batch = RolloutBatch.from_padded(
        padded("trainer", pad, torch.float32),
        padded("inference", pad, torch.float32),
        padded("mask", False, torch.bool),
        advantage=torch.tensor([r["advantage"] for r in drawn]),
        columns=table.select("rollout_id", "step"),
    )
    plain, wide = ledger_of(table), ledger_of(batch)
    same(*(Ledger(PLAN, _unpadded(x.rows), _unpadded(x.trained), x.histograms, x.unscored) for x in (plain, wide)))


def _unpadded(rows: LedgerRows) -> LedgerRows:
    """Rows without the count that padding is bound to change."""
    frame = rows.to_frame().with_columns(tokens=pl.lit(0, pl.Int32))
    return LedgerRows.of(frame.select(sorted(rows.columns)).sort("rollout_id"))


@few
@given(drawn=rollouts(min_size=1, unusable=True))
def test_a_saved_ledger_gives_the_same_report(drawn, tmp_path: Path):
    ledger = ledger_of(table_of(drawn))
    store.save(ledger, tmp_path / "a.ledger")
    same(ledger, store.load(tmp_path / "a.ledger"))
    store.save(store.load(tmp_path / "a.ledger"), tmp_path / "b.ledger")
    assert (tmp_path / "a.ledger").read_bytes() == (tmp_path / "b.ledger").read_bytes()


def test_empty_rollouts_change_nothing_but_the_counts():
    def table(lengths):
        return pl.DataFrame(
            {
                "rollout_id": [f"r{length}{i}" for i, length in enumerate(lengths)],
                "trainer_logprobs": [[-0.5, -1.0, -0.25][:length] for length in lengths],
                "inference_logprobs": [[-0.75, -0.5, -0.25][:length] for length in lengths],
                "loss_mask": [[True] * length for length in lengths],
            },
            schema_overrides={
                "trainer_logprobs": pl.List(pl.Float32),
                "inference_logprobs": pl.List(pl.Float32),
                "loss_mask": pl.List(pl.Boolean),
            },
        )

    full = build_report(ledger_of(table([3, 2])))
    for lengths in ([0, 3, 2], [3, 0, 2], [3, 2, 0], [0, 0, 3, 0, 2, 0]):
        report = build_report(ledger_of(table(lengths)))
        assert report.mismatch == full.mismatch
        assert [r.figures for r in report.recipes] == [r.figures for r in full.recipes]
        assert report.coverage.rollouts_empty == lengths.count(0)
