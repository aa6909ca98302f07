"""The program as a user runs it: real dumps, broken dumps, exit codes, stdout and stderr apart."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import iscope


def run(*arguments, cwd=None):
    """Run the command line; returns exit code, stdout and stderr."""
    environment = {**os.environ, "COLUMNS": "100", "PYTHONPATH": str(Path(iscope.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, "-m", "iscope", *map(str, arguments)], capture_output=True, text=True, cwd=cwd, env=environment
    )
    return done.returncode, done.stdout, done.stderr


def refuse(constant):
    raise ValueError(f"{constant} is not JSON")


def strict_json(text):
    return json.loads(text, parse_constant=refuse)


def figures(report):
    """What must agree between two ways of reading the same rollouts."""
    document = report.to_dict()
    return document["mismatch"], document["recipes"], document["breakdowns"]


def test_two_sides_in_any_order_give_the_figures_of_the_joined_dump(sample_data, tmp_path):
    trainer = pl.read_parquet(sample_data / "train_async" / "trainer_fp32.parquet")
    vllm = pl.read_parquet(sample_data / "train_async" / "vllm.parquet")
    joined = pl.read_parquet(sample_data / "train_async.parquet")
    missing, altered = trainer["rollout_id"][7], trainer["rollout_id"][100]
    ids = pl.when(pl.col("rollout_id") == altered).then(pl.col("token_ids").list.reverse()).otherwise("token_ids")
    trainer.filter(pl.col("rollout_id") != missing).with_columns(token_ids=ids).sample(
        fraction=1.0, shuffle=True, seed=1
    ).write_parquet(tmp_path / "trainer.parquet", row_group_size=50)
    vllm.sample(fraction=1.0, shuffle=True, seed=2).write_parquet(tmp_path / "vllm.parquet", row_group_size=70)
    paired = iscope.analyze(trainer=tmp_path / "trainer.parquet", vllm=tmp_path / "vllm.parquet")
    whole = iscope.analyze(joined.filter(~pl.col("rollout_id").is_in([missing, altered])))
    assert figures(paired) == figures(whole)
    assert paired.coverage.rollouts_read == joined.height
    assert paired.coverage.rollouts_excluded == {"token_ids_differ": 1, "unmatched_inference": 1}


def test_the_same_from_padded_tensors_lists_and_tables(sample_data):
    import torch

    table = pl.read_parquet(sample_data / "train_async.parquet")
    columns = ("trainer_logprobs", "inference_logprobs", "loss_mask")
    width = int(table["trainer_logprobs"].list.len().max())

    def padded(name):
        return torch.tensor([list(row) + [0.0] * (width - len(row)) for row in table[name].to_list()])

    rest = table.drop(*columns, "token_ids")
    advantage = torch.tensor(table["advantage"].to_list())
    batch = iscope.RolloutBatch.from_padded(*(padded(name) for name in columns), advantage=advantage, columns=rest)
    lists = iscope.RolloutBatch.from_lists(
        *(table[name].to_list() for name in columns), advantage=table["advantage"].to_list(), columns=rest
    )
    expected = figures(iscope.analyze(table))
    assert figures(iscope.analyze(batch)) == expected
    assert figures(iscope.analyze(lists)) == expected
    assert figures(iscope.analyze(table.to_arrow())) == expected


GOOD = {
    "rollout_id": ["a", "b"],
    "trainer_logprobs": [[-0.5, -1.0], [-0.25]],
    "inference_logprobs": [[-0.5, -1.25], [-0.5]],
    "advantage": [1.0, -1.0],
}


def table(**changes):
    data = {name: values for name, values in (GOOD | changes).items() if values is not None}
    return pa.table(data)


BROKEN = {
    "missing column": (lambda: table(trainer_logprobs=None), 3, "trainer_logprobs"),
    "strings": (lambda: table(trainer_logprobs=[["x", "y"], ["z"]]), 3, "trainer_logprobs"),
    "scalars": (lambda: table(inference_logprobs=[-0.5, -0.25]), 3, "inference_logprobs"),
    "ragged": (lambda: table(inference_logprobs=[[-0.5], [-0.5]]), 3, "inference_logprobs"),
    "no rows": (lambda: table().slice(0, 0), 3, "empty"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_table_gives_one_sentence(name, tmp_path):
    make, code, word = BROKEN[name]
    path = tmp_path / "dump.parquet"
    pq.write_table(make(), path)
    check_refused(run("analyze", path), code, "dump.parquet", word)
    returned, out, _ = run("analyze", path, "--format", "json")
    error = strict_json(out)["error"]
    assert (returned, error["exit_code"]) == (code, code)
    assert word in error["message"]


def check_refused(done, code, *words):
    returned, out, err = done
    assert returned == code, err
    assert out == ""
    assert len(err.strip().splitlines()) == 1, err
    assert "Traceback" not in err
    for word in words:
        assert word in err


def test_files_that_are_no_dump(tmp_path):
    whole = tmp_path / "whole.parquet"
    pq.write_table(table(), whole)
    content = whole.read_bytes()
    (tmp_path / "truncated.parquet").write_bytes(content[: len(content) // 2])
    (tmp_path / "text.parquet").write_text("not Parquet")
    (tmp_path / "nothing.parquet").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    for name in ("truncated.parquet", "text.parquet", "nothing.parquet", "absent.parquet", "folder"):
        check_refused(run("analyze", tmp_path / name), 3, name)


def test_settings_that_cannot_be(sample_data):
    dump = sample_data / "train_async.parquet"
    for recipe, word in {
        "trl/token_msk": "token_mask",
        "trl/token_mask:clip_mx=2": "clip_max",
        "trl/token_mask:clip_min=3,clip_max=2": "clip_min",
        "trl/sequence_truncate:clip_max=none": "clip_max",
    }.items():
        check_refused(run("analyze", dump, "--recipe", recipe), 2, word)
    check_refused(run("analyze", dump, "--by", "no_such_column"), 3, "no_such_column")
    check_refused(run("analyze", dump, "--precision", "float16"), 2, "float16")


def test_json_is_valid_when_everything_is_masked(tmp_path):
    path = tmp_path / "dump.parquet"
    pq.write_table(table(loss_mask=[[0, 0], [0]]), path)
    code, out, _ = run("analyze", path, "--format", "json")
    document = strict_json(out)
    assert code == 0
    assert document["coverage"]["rollouts"] == {"read": 2, "analyzed": 0, "empty": 2, "excluded": {}}
    assert document["mismatch"]["k3"] == {"value": None, "why": "no scored tokens"}
    code, out, _ = run("analyze", path, "--recipe", "trl/token_mask:clip_min=5,clip_max=6", "--format", "json")
    assert code == 0
    strict_json(out)


def test_json_is_valid_where_every_token_is_rejected_or_extreme(tmp_path, golden):
    code, out, _ = run("analyze", golden / "rollouts_extreme.parquet", "--format", "json", "--by", "group")
    assert code == 0
    ratio = strict_json(out)["mismatch"]["ratio"]["sequence"]["max"]
    assert ratio["value"] is None
    assert ratio["log10"] == pytest.approx(800 / math.log(10))
    path = tmp_path / "dump.parquet"
    pq.write_table(table(inference_logprobs=[[-30.5, -31.0], [-30.25]]), path)
    code, out, _ = run("analyze", path, "--format", "json")
    recipes = {recipe["name"]: recipe for recipe in strict_json(out)["recipes"]}
    assert recipes["trl/token_mask"]["effective_batch_size"]["value"] == 0
    assert recipes["trl/token_mask"]["kept"] == {"tokens": 0, "rollouts": 0}


def test_a_ledger_cannot_replace_the_dump_or_go_nowhere(sample_data, tmp_path):
    dump = tmp_path / "dump.parquet"
    dump.write_bytes((sample_data / "train_async.parquet").read_bytes())
    with pytest.raises(iscope.UsageError, match="part of the dump"):
        iscope.analyze(tmp_path, ledger=dump)
    with pytest.raises(iscope.UsageError, match="no folder"):
        iscope.analyze(dump, ledger=tmp_path / "no" / "x.ledger")
    assert dump.read_bytes() == (sample_data / "train_async.parquet").read_bytes()


def test_every_row_unusable_is_said(tmp_path):
    path = tmp_path / "dump.parquet"
    pq.write_table(table(trainer_logprobs=pa.array([None, None], pa.list_(pa.float32()))), path)
    code, _, err = run("analyze", path)
    assert code == 3
    assert "null_trainer_logprobs" in err
    assert len(err.strip().splitlines()) == 1


def test_the_same_dump_gives_the_same_bytes(sample_data):
    first = run("analyze", sample_data / "train_async.parquet", "--format", "json")
    assert first[0] == 0
    assert first == run("analyze", sample_data / "train_async.parquet", "--format", "json")


def test_a_saved_report_reads_back(sample_data):
    report = iscope.analyze(sample_data / "train_async.parquet")
    document = report.to_dict()
    assert iscope.Report.from_dict(json.loads(json.dumps(document))).to_dict() == document
    recipes = report.table("recipes")
    assert recipes["spec"].to_list() == [recipe.spec for recipe in report.recipes]
    assert np.isclose(
        recipes["gradient_left.all"].to_list()[1], report.recipes[1].figures["gradient_left"]["all"].value
    )
    assert report.table("step")["k3"].to_list() == [row["k3"].value for row in report.breakdowns["step"]]
    assert report.table("mismatch").height == 1
    with pytest.raises(iscope.UsageError, match="step"):
        report.table("stp")
