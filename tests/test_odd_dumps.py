"""Dumps with columns that nobody meant: a report or one sentence, and every recipe with whatever a dump has."""

from __future__ import annotations

import datetime
import itertools
import json
import uuid
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iscope
from iscope.cli.app import run
from iscope.errors import DataError
from iscope.recipes.registry import names

ROLLOUTS = 24
INFINITE = float("inf")


def dump(*, advantage: str = "rollout", mask: bool = True, **columns: Any) -> pl.DataFrame:
    """Rollouts of 0 to 8 tokens, with further columns; ``advantage`` per ``rollout``, per ``token``, or ``none``."""
    rng = np.random.default_rng(0)
    lengths = [0, 1, 3, 8, 5, 2] * (ROLLOUTS // 6)
    inference = [-rng.gamma(0.45, 3.0, length) for length in lengths]

    def beside(spread: float) -> pl.Series:
        rows = [np.minimum(row + spread * rng.standard_normal(row.size), 0).tolist() for row in inference]
        return pl.Series(rows, dtype=pl.List(pl.Float32))

    found: dict[str, Any] = {
        "rollout_id": [str(row) for row in range(ROLLOUTS)],
        "group_id": [f"g{row // 4}" for row in range(ROLLOUTS)],
        "step": [row // 12 for row in range(ROLLOUTS)],
        "inference_logprobs": beside(0.0),
        "trainer_logprobs": beside(0.05),
    }
    if advantage == "rollout":
        found["advantage"] = [float(row % 5 - 2) for row in range(ROLLOUTS)]
    if advantage == "token":
        found["advantage"] = [[float((row + at) % 5 - 2) for at in range(n)] for row, n in enumerate(lengths)]
    if mask:
        found["loss_mask"] = [[(row + at) % 5 > 0 for at in range(n)] for row, n in enumerate(lengths)]
    for name, value in columns.items():
        found[name] = beside(value) if isinstance(value, float) else value
    return pl.DataFrame(found)


VARIANTS = {
    "no advantage": {"advantage": "none"},
    "no advantage, current": {"advantage": "none", "current_logprobs": 0.1},
    "advantage": {},
    "advantage, current": {"current_logprobs": 0.1, "mask": False},
    "advantage per token": {"advantage": "token"},
    "advantage per token, all": {
        "advantage": "token",
        "current_logprobs": 0.1,
        "ref_logprobs": 0.5,
        "reward": [float(row % 3 == 0) for row in range(ROLLOUTS)],
    },
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("recipe", [*names(), "slime/mis:use_opsm=true", "miles/mis:use_opsm=true"])
def test_every_recipe_with_whatever_a_dump_has(recipe: str, variant: str) -> None:
    report = iscope.analyze(dump(**VARIANTS[variant]), recipes=[recipe])
    found = report.recipes[-1]
    assert (found.why is None) == bool(found.figures)
    json.dumps(report.to_dict(), allow_nan=False)


def test_prime_rl_tells_no_signs_of_advantages_per_token() -> None:
    found = iscope.analyze(dump(advantage="token"), recipes=["prime-rl/default@2026-08"]).recipes[-1].framework
    assert found["is_masked/mean"].value is not None
    assert found["is_masked_high/mean"].value is not None
    for name in ("is_masked_low", "masked_advantage_positive", "masked_advantage_negative"):
        assert found[f"{name}/mean"].why == "the dump has no advantage per rollout"
    recipe = "prime-rl/default@2026-08:filter_zero_advantages=true"
    found = iscope.analyze(dump(advantage="token"), recipes=[recipe]).recipes[-1].framework
    assert found["is_masked/mean"].why == "the dump has no advantage per rollout"


def test_ids_that_are_uuids_or_bytes(tmp_path) -> None:
    ids = [uuid.UUID(int=row // 2) for row in range(ROLLOUTS)]
    table = dump().drop("group_id").to_arrow()
    kinds = {
        "uuid": pa.array([one.bytes for one in ids], pa.uuid()),
        "fixed": pa.array([one.bytes for one in ids], pa.binary(16)),
        "bytes": pa.array([b"\xff" + str(one.int).encode() for one in ids], pa.binary()),
        "text": pa.array([str(one).encode() for one in ids], pa.large_binary()),
    }
    written = {"uuid": str(ids[0]), "fixed": ids[0].hex, "bytes": "\\xff0", "text": str(ids[0])}
    for kind, array in kinds.items():
        path = tmp_path / f"{kind}.parquet"
        pq.write_table(table.append_column("group_id", array), path)
        report = iscope.analyze(path, recipes=["none"], by=["group"])
        rows = report.breakdowns["group"]
        assert (rows[0]["value"], len(rows)) == (written[kind], ROLLOUTS // 2)


def test_ids_that_are_bytes_in_memory() -> None:
    ids = [b"\xff" + str(row // 2).encode() for row in range(4)]
    lists = [[-1.0]] * 4
    batch = iscope.RolloutBatch.from_lists(lists, lists, columns={"rollout_id": ["a", "b", "c", "d"], "group_id": ids})
    report = iscope.analyze(batch, recipes=["none"], by=["group"])
    assert [row["value"] for row in report.breakdowns["group"]] == ["\\xff0", "\\xff1"]


def test_values_of_a_breakdown_beyond_int64() -> None:
    seeds = pl.Series([2**64 - 1, 5] * (ROLLOUTS // 2), dtype=pl.UInt64)
    report = iscope.analyze(dump(seed=seeds), recipes=["none"], by=["seed"])
    assert [row["value"] for row in report.breakdowns["seed"]] == [5, 2**64 - 1]


@pytest.mark.parametrize("version", [2**64 - 1, 2**63])
def test_a_version_beyond_int64_is_not_known(version: int) -> None:
    versions = pl.Series([version, *[3] * (ROLLOUTS - 1)], dtype=pl.UInt64)
    report = iscope.analyze(dump(trainer_version=versions, policy_version=[1] * ROLLOUTS), recipes=["none"])
    lag = report.mismatch["lag"]
    assert (lag["min"].value, lag["max"].value) == (2, 2)


@pytest.mark.parametrize("version", [INFINITE, -INFINITE, float("nan"), 1e308])
def test_a_version_that_is_no_whole_number_is_not_known(version: float) -> None:
    versions = [version, *[3.0] * (ROLLOUTS - 2), 4.0]
    report = iscope.analyze(dump(trainer_version=versions, policy_version=[1] * ROLLOUTS), recipes=["none"])
    lag = report.mismatch["lag"]
    assert (lag["min"].value, lag["max"].value) == (2, 3)
    assert [row["value"] for row in report.breakdowns["lag"]] == [2, 3]


@pytest.mark.parametrize("advantage", [1e308, -1e39, INFINITE, float("nan")])
def test_an_advantage_that_no_float32_holds_is_left_out(advantage: float) -> None:
    values = [0.0, advantage, *[1.0] * (ROLLOUTS - 2)]
    report = iscope.analyze(dump(advantage="none").with_columns(advantage=pl.Series(values)))
    assert report.coverage.rollouts_excluded == {"nonfinite_advantage": 1}


def test_a_temperature_that_is_infinite_is_a_word() -> None:
    report = iscope.analyze(dump(temperature=[INFINITE, 1.0] * (ROLLOUTS // 2)), recipes=["none"])
    assert report.parts["sampling"]["temperature"] == [1.0, "inf"]


ODD = {
    "whole": pl.Series([None, 0, 2**62, -(2**63)] * 6, dtype=pl.Int64),
    "unsigned": pl.Series([0, 1, 2**64 - 1, None] * 6, dtype=pl.UInt64),
    "float": pl.Series([None, float("nan"), INFINITE, -INFINITE, 1e308, 1e-320] * 4),
    "text": pl.Series([None, "", "\n", "<b>", "x" * 300, "nan"] * 4),
    "flags": pl.Series([None, True, False] * 8),
    "nothing": pl.Series([None] * ROLLOUTS),
    "times": pl.Series([datetime.datetime(2026, 1, 1 + row) for row in range(ROLLOUTS)]),
    "days": pl.Series([datetime.date(2026, 1, 1 + row) for row in range(ROLLOUTS)]),
    "structs": pl.Series([{"a": row} for row in range(ROLLOUTS)]),
    "lists": pl.Series([[row, None] for row in range(ROLLOUTS)]),
    "categories": pl.Series(["a", "b"] * 12, dtype=pl.Categorical),
    "bytes": pl.Series([b"\xff%d" % row for row in range(ROLLOUTS)]),
}
PLACES = (
    *("rollout_id", "group_id", "step", "policy_version", "trainer_version", "advantage", "reward", "env"),
    *("temperature", "top_k", "logprobs_mode", "finish_reason"),
)
EXTREME = (0.0, -1e-45, -745.0, -1e30, -INFINITE, INFINITE, float("nan"), 0.1, 5.0)
COMMANDS = (
    *itertools.product(["analyze"], ["--format"], ["terminal", "json", "html", "markdown"]),
    ("analyze", "--by", "env", "--batch", "step"),
    ("analyze", "--by", "reward", "--unscored", "neutral"),
    ("inspect",),
    ("check", "--gates", "default"),
    ("compare", "--recipe", "trl/token_mask", "--sweep", "clip_max=2,3"),
)


@settings(max_examples=60)
@given(
    odd=st.dictionaries(st.sampled_from(PLACES), st.sampled_from(sorted(ODD)), max_size=3),
    extreme=st.lists(st.sampled_from(EXTREME), max_size=4),
    command=st.sampled_from(COMMANDS),
)
def test_a_report_or_a_sentence(odd, extreme, command, tmp_path_factory) -> None:
    path = tmp_path_factory.mktemp("odd") / "dump.parquet"
    table = dump(current_logprobs=0.1, policy_version=[row // 12 for row in range(ROLLOUTS)]).with_columns(
        *(ODD[kind].alias(name) for name, kind in odd.items())
    )
    if extreme:
        values = pl.Series([extreme, *table["trainer_logprobs"][1:].to_list()], dtype=pl.List(pl.Float32))
        others = {
            name: pl.Series([[row] * len(extreme), *table[name][1:].to_list()], dtype=table[name].dtype)
            for name, row in (("inference_logprobs", -1.0), ("current_logprobs", -1.0), ("loss_mask", True))
        }
        table = table.with_columns(trainer_logprobs=values, **others)
    table.write_parquet(path, row_group_size=10)
    name, *options = command
    assert run([name, str(path), *options]) in (0, 1, DataError.exit_code)


@pytest.mark.parametrize("other", ["structs", "text", "lists", "bytes"])
def test_sides_that_share_an_odd_column(other: str) -> None:
    table = dump(env=ODD["structs"])
    there = ODD[other].alias("env")
    sides = {"trainer": table.drop("inference_logprobs"), "vllm": table.drop("trainer_logprobs").with_columns(there)}
    report = iscope.analyze(**sides, recipes=["none"])
    differing = 0 if other == "structs" else ROLLOUTS - there.null_count()
    assert report.coverage.notes.get("conflicting_env", 0) == differing


@pytest.mark.parametrize("reward", [1e308, -1e308, INFINITE, float("nan"), None])
def test_a_reward_that_no_float32_holds_is_missing(reward: float | None) -> None:
    report = iscope.analyze(dump(reward=[0.0, 1.0] * (ROLLOUTS // 2 - 1) + [reward] * 2), recipes=["none"])
    assert all(0 <= row["reward"].value <= 1 for row in report.breakdowns["step"])
