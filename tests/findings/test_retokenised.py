"""IS008: three pairs of sides that disagree on tokens, and three that do not."""

from __future__ import annotations

import polars as pl
import pytest

import iscope
from tests.findings.factory import healthy


def sides(change, rows):
    rollouts = healthy()
    ids = [list(range(len(row))) for row in rollouts.trainer]
    floats, ints = pl.List(pl.Float32), pl.List(pl.Int32)
    schema = {"rollout_id": pl.String, "logprobs": floats, "token_ids": ints}
    key = rollouts.columns["rollout_id"]
    trainer = [row.tolist() for row in rollouts.trainer]
    for row in rows:
        ids_there, logprobs = change(list(ids[row]), trainer[row])
        ids = [*ids[:row], ids_there, *ids[row + 1 :]]
        trainer[row] = logprobs
    own = [list(range(len(row))) for row in rollouts.inference]
    engine = {"rollout_id": key, "logprobs": [row.tolist() for row in rollouts.inference], "token_ids": own}
    return (
        pl.DataFrame({"rollout_id": key, "logprobs": trainer, "token_ids": ids}, schema=schema),
        pl.DataFrame(engine, schema=schema),
    )


def codes(change, rows):
    trainer, engine = sides(change, rows)
    findings = iscope.inspect(trainer=trainer, vllm=engine).findings
    return {finding.code: finding.severity for finding in findings if finding.severity != "information"}


def other_id(ids, logprobs):
    return [*ids[:-1], 99], logprobs


def one_more(ids, logprobs):
    return [*ids, 2], [*logprobs, -0.1]


@pytest.mark.parametrize(
    ("change", "rows", "severity"),
    [(other_id, range(192)[::2], "error"), (one_more, range(20), "error"), (other_id, [5], "warning")],
    ids=["half of the rollouts", "an end token on one side", "one rollout"],
)
def test_due(change, rows, severity):
    assert codes(change, rows) == {"IS008": severity}


def shifted_row(ids, logprobs):
    return ids, [value - 1e-4 for value in logprobs]


@pytest.mark.parametrize("rows", [[], [0], range(192)], ids=["equal", "one rounded", "all rounded"])
def test_quiet(rows):
    assert codes(shifted_row, rows) == {}
