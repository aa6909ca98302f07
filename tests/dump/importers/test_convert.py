from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import iscope
from iscope.cli import app
from iscope.errors import DataError, UsageError
from tests.dump.importers import layouts
from tests.dump.importers.test_formats import close, figures

ROWS = [row for row in layouts.rollouts() if row.length]
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", layouts.WHOLE)
def test_a_converted_dump_gives_the_same_figures(tmp_path, name):
    path = layouts.WHOLE[name](ROWS, tmp_path)
    done = iscope.convert(path, output=tmp_path / "c.parquet", from_format=layouts.NAMES[name])
    assert (done.rollouts, done.excluded) == (len(ROWS), {})
    one, other = (iscope.analyze(dump, recipes=["none", "trl/token_mask"]) for dump in (path, tmp_path / "c.parquet"))
    close(figures(one), figures(other))
    # The ids too are those that the dump has when it is read directly.
    assert one.to_dict()["worst"] == other.to_dict()["worst"]


def test_the_columns_are_canonical_and_the_ids_are_kept(tmp_path):
    iscope.convert(layouts.write_slime(ROWS, tmp_path), output=tmp_path / "c.parquet")
    table = pq.read_table(tmp_path / "c.parquet")
    names = ["trainer_logprobs", "inference_logprobs", "loss_mask", "advantage", "token_ids", "rollout_id", "group_id"]
    assert {*names, "step", "reward", "finish_reason"} == set(table.column_names)
    assert table.column("token_ids").to_pylist() == [row.ids for row in ROWS]
    assert table.column("rollout_id").to_pylist() == [f"7/{row}" for row in range(len(ROWS))]
    assert table.schema.field("trainer_logprobs").type.value_type == pa.float32()


def test_sides_are_joined(tmp_path):
    keys = [f"q{index // 4}/{index % 4}" for index in range(len(ROWS))]
    trainer = pa.table({"rollout_id": keys, "logprobs": [row.trainer for row in ROWS]}).slice(1)
    done = iscope.convert(trainer=trainer, vllm=layouts.write_chat(ROWS, tmp_path), output=tmp_path / "c.parquet")
    assert (done.rollouts, done.excluded) == (len(ROWS) - 1, {"unmatched_inference": 1})
    table = pq.read_table(tmp_path / "c.parquet")
    assert table.column("rollout_id").to_pylist() == keys[1:]
    assert (
        table.column("inference_logprobs").to_pylist()
        == pa.array([row.inference for row in ROWS[1:]], table.schema.field("inference_logprobs").type).to_pylist()
    )


def test_rows_that_no_figure_can_use_are_kept(tmp_path):
    lines = [{"trainer_logprobs": [-1.0], "inference_logprobs": logprobs} for logprobs in ([-1.0], None)]
    path = layouts.lines(tmp_path / "a.jsonl", lines)
    done = iscope.convert(path, output=tmp_path / "c.parquet")
    assert done.rollouts == 2
    coverages = [iscope.analyze(dump, recipes=["none"]).coverage for dump in (path, tmp_path / "c.parquet")]
    assert coverages[0] == coverages[1]
    assert coverages[0].rollouts_excluded == {"null_inference_logprobs": 1}


def test_nothing_in_common_writes_nothing(tmp_path):
    sides = [pa.table({"rollout_id": [key], "logprobs": [[-1.0]]}) for key in "ab"]
    with pytest.raises(DataError, match="No rollout could be joined: unmatched_inference 1, unmatched_trainer 1"):
        iscope.convert(trainer=sides[0], vllm=sides[1], output=tmp_path / "c.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_broken_file_leaves_what_was_there(tmp_path):
    path = layouts.lines(tmp_path / "a.jsonl", [{"trainer_logprobs": [-1.0], "inference_logprobs": [-1.0, -2.0]}])
    (tmp_path / "c.parquet").write_text("before")
    with pytest.raises(DataError, match="row 0: 'inference_logprobs' has 2 tokens and 'trainer_logprobs' 1"):
        iscope.convert(path, output=tmp_path / "c.parquet")
    assert (tmp_path / "c.parquet").read_text() == "before"
    with pytest.raises(UsageError, match="part of the dump"):
        iscope.convert(path, output=path)


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "iscope", *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )


def in_process(capsys, *arguments):
    code = app.run([str(argument) for argument in arguments])
    return code, capsys.readouterr().err.removeprefix("iscope: error: ").removesuffix("\n")


def test_the_command(tmp_path, capsys):
    source, destination = layouts.write_prime_rl(ROWS, tmp_path), tmp_path / "c.parquet"
    done = run("convert", source, destination, "--from", "prime-rl")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        "prime-rl writes no group id: rollouts of one step with the same prompt tokens are taken as a group.",
        f"{destination}: 11 rollouts, {sum(len(row.prompt) + row.length for row in ROWS)} tokens.",
    ]
    # The rest in this process: each start of Python imports torch anew.
    said = functools.partial(in_process, capsys)
    assert said("convert", source, destination) == (
        2,
        f"DEST {destination}: the file exists; add --force to overwrite it.",
    )
    code, text = said("convert", destination)
    assert code == 2
    assert "name SRC and DEST" in text
    code, text = said("analyze", source, "--from", "slime")
    assert code == 3
    assert "the folder holds no finished file that is named as the format asked for" in text
    code, text = said("analyze", source / "step_7" / "rank_0.jsonl", "--from", "nemo-rl")
    assert code == 3
    assert "it is no file of nemo-rl (train_data_stepN.jsonl); it holds: schema_version, step" in text
    code, text = said("inspect", source, "--from", "prim-rl")
    assert code == 2
    assert "Did you mean 'prime-rl'?" in text
