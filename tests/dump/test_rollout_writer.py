from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import iscope
from iscope.dump import open_dump
from iscope.dump.rollout_columns import LISTS, SINGLE
from iscope.dump.schema import CANONICAL
from iscope.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]


def some(lengths=(3, 0, 5), seed=0):
    rng = np.random.default_rng(seed)
    inference = [-rng.exponential(1.0, n).astype(np.float32) for n in lengths]
    return {
        "trainer_logprobs": [x - np.float32(0.01) for x in inference],
        "inference_logprobs": inference,
        "loss_mask": [rng.integers(0, 2, n) for n in lengths],
        "token_ids": [rng.integers(0, 1000, n) for n in lengths],
        "advantage": rng.normal(0, 1, len(lengths)),
        "reward": rng.normal(0, 1, len(lengths)),
        "group_id": [1] * len(lengths),
    }


def padded(rows, convert, extra=2):
    width = max(map(len, rows)) + extra
    return convert(np.array([[*row, *[9] * (width - len(row))] for row in rows]))


def test_the_types_of_all_canonical_columns_are_known():
    assert {*LISTS, *SINGLE, "advantage"} == set(CANONICAL)


@pytest.mark.parametrize(
    "convert",
    [np.asarray, torch.tensor, lambda x: torch.tensor(x, requires_grad=x.dtype == float)],
    ids=["array", "tensor", "tensor_with_gradient"],
)
def test_padded_and_ragged_give_the_same_dump(tmp_path, convert):
    rows = some()
    present = padded([np.ones(len(row), int) for row in rows["loss_mask"]], convert) == 1
    with iscope.RolloutWriter(tmp_path / "ragged") as writer:
        writer.add(step=1, **rows)
    with iscope.RolloutWriter(tmp_path / "padded") as writer:
        tokens = {name: padded(rows[name], convert) for name in rows if name in LISTS}
        writer.add(step=1, present=present, **{**rows, **tokens})
    one, other = (pq.read_table(tmp_path / name / "step000001-rank000.parquet") for name in ("ragged", "padded"))
    assert one.equals(other)
    assert one.column("trainer_logprobs").to_pylist() == [row.tolist() for row in rows["trainer_logprobs"]]


def test_what_is_written_is_read(tmp_path):
    settings = {"temperature": 0.7, "top_p": 0.9, "top_k": 20, "min_p": 0.0, "logprobs_mode": "processed_logprobs"}
    for rank in (0, 1):
        with iscope.RolloutWriter(tmp_path, rank=rank, settings=settings, flush_tokens=1) as writer:
            for step in (1, 2):
                for micro in (0, 1):
                    writer.add(step=step, policy_version=step - 1, **some(seed=micro + 2 * rank))
    dump = open_dump([tmp_path])
    frame = [batch.columns for batch in dump.batches()]
    ids = [name for columns in frame for name in columns["rollout_id"].to_list()]
    assert len(ids) == len(set(ids)) == 24
    assert ids[:4] == ["1/0/0", "1/0/1", "1/0/2", "1/0/3"]
    assert {*frame[0]["temperature"]} == {0.7}
    assert {*frame[0]["logprobs_mode"]} == {"processed_logprobs"}
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"step00000{step}-rank00{rank}.parquet" for step in (1, 2) for rank in (0, 1)
    ]
    about = json.loads(pq.read_schema(tmp_path / "step000001-rank000.parquet").metadata[b"iscope"])
    assert about["settings"] == settings
    assert about["versions"]["iscope"] == iscope.__version__
    assert "torch" in about["versions"]


def test_bfloat16_and_values_that_no_figure_can_use(tmp_path):
    values = torch.tensor([[-1.0, float("nan"), float("-inf")]], dtype=torch.bfloat16)
    with iscope.RolloutWriter(tmp_path) as writer:
        writer.add(
            step=0, trainer_logprobs=values, inference_logprobs=values, advantage=torch.tensor([[1.0, 2.0, 3.0]])
        )
    found = pq.read_table(tmp_path).to_pylist()[0]
    assert found["trainer_logprobs"][0] == -1.0
    assert np.isnan(found["trainer_logprobs"][1])
    assert found["advantage"] == [1.0, 2.0, 3.0]


def test_a_step_that_comes_again_gets_another_file(tmp_path):
    for _ in range(2):
        with iscope.RolloutWriter(tmp_path) as writer:
            for step in (5, 6, 5):
                writer.add(step=step, **some())
    names = sorted(path.name for path in tmp_path.iterdir())
    parts = [f"step000005-rank000{part}.parquet" for part in ("-001", "-002", "-003", "")]
    assert names == [*parts, "step000006-rank000-001.parquet", "step000006-rank000.parquet"]


BAD = {
    "no logprobs": ({"loss_mask": [[1]]}, None),
    "rows": ({"advantage": [1.0]}, "advantage has 1 values, but there are 3 rollouts"),
    "lengths": ({"loss_mask": [[1], [], [1]]}, "rollout 0: loss_mask has 1 tokens, but trainer_logprobs 3"),
    "lists": ({"trainer_logprobs": [[1.0]]}, "inference_logprobs has 3 rollouts, but trainer_logprobs 1"),
    "text": ({"inference_logprobs": [["a"] * 3, [], ["b"] * 5]}, "inference_logprobs cannot be written"),
    "reward": ({"reward": ["a", "b", "c"]}, "reward cannot be written"),
    "name": ({"a b": 1}, "'a b' is no name of a column"),
    "present": (
        {"present": np.ones((3, 4)), "loss_mask": np.ones((3, 5))},
        "loss_mask is [3, 5], but present is [3, 4]",
    ),
}


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_written_is_said(tmp_path, changes, message):
    with iscope.RolloutWriter(tmp_path) as writer:
        writer.add(step=1, **some())
        if message is None:
            return
        with pytest.raises(UsageError) as caught:
            writer.add(step=1, **{**some(), **changes})
        assert message in str(caught.value)
    assert pq.read_table(tmp_path).num_rows == 3


def test_columns_do_not_come_and_go_within_a_step(tmp_path):
    with iscope.RolloutWriter(tmp_path, flush_tokens=1) as writer:
        writer.add(step=1, **some())
        with pytest.raises(UsageError, match="ref_logprobs was not given for the first rollouts of step 1"):
            writer.add(step=1, ref_logprobs=some()["trainer_logprobs"], **some())
        with pytest.raises(UsageError, match="loss_mask is given for some rollouts of step 1"):
            writer.add(step=1, **{name: value for name, value in some().items() if name != "loss_mask"})
        writer.add(step=1, **{name: value for name, value in some().items() if name != "reward"})
    assert pq.read_table(tmp_path).column("reward").null_count == 3


def test_settings_and_folder(tmp_path):
    with pytest.raises(UsageError, match=r"'temprature' is none of a dump's\. Did you mean 'temperature'"):
        iscope.RolloutWriter(tmp_path, settings={"temprature": 1})
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot make this folder"):
        iscope.RolloutWriter(tmp_path / "file")
    writer = iscope.RolloutWriter(tmp_path)
    writer.close()
    writer.close()
    with pytest.raises(UsageError, match="closed"):
        writer.add(step=1, **some())


WRITE = """
import sys, time
import numpy as np
import iscope
writer = iscope.RolloutWriter(sys.argv[1], flush_tokens=2000)
assert "torch" not in sys.modules
rows = [-np.arange(500, dtype=np.float32)] * 4
print("begun", flush=True)
step = 0
while True:
    for micro in range(3):
        writer.add(step=step, trainer_logprobs=rows, inference_logprobs=rows, loss_mask=[np.ones(500)] * 4)
        if sys.argv[2] == "slow":
            print(micro, flush=True)
            time.sleep(0.1 if micro < 2 else 60)
    step += 1
    if sys.argv[2] == "two" and step == 2:
        break
"""


def start(folder, how):
    process = subprocess.Popen(
        [sys.executable, "-c", WRITE, str(folder), how], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline() == b"begun\n"
    return process


def wait_for_files(folder, number):
    while len(list(folder.glob("*.parquet"))) < number:
        time.sleep(0.001)


@pytest.mark.parametrize(("files", "delay"), [(0, 0.0), (1, 0.0), (2, 0.003), (3, 0.007), (4, 0.011)])
def test_killed_at_any_moment_only_whole_files_are_left(tmp_path, files, delay):
    process = start(tmp_path, "fast")
    wait_for_files(tmp_path, files)
    time.sleep(delay)
    process.kill()
    process.communicate()
    found = sorted(tmp_path.rglob("*.parquet"))
    assert len(found) >= files
    assert [pq.read_table(file).num_rows for file in found] == [12] * len(found)
    if found:
        assert sum(map(len, open_dump([tmp_path]).batches())) == 12 * len(found)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_what_was_added_is_written(tmp_path, number):
    process = start(tmp_path, "slow")
    while process.stdout.readline() != b"2\n":
        pass
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode in (-number, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["step000000-rank000.parquet"]
    assert pq.read_table(tmp_path).num_rows == 12


def test_terminated_while_it_writes_only_whole_steps_and_rollouts_are_left(tmp_path):
    process = start(tmp_path, "fast")
    wait_for_files(tmp_path, 2)
    process.terminate()
    process.communicate(timeout=20)
    assert process.returncode == -signal.SIGTERM
    rows = [pq.read_table(file).num_rows for file in sorted(tmp_path.iterdir())]
    assert rows[:-1] == [12] * (len(rows) - 1)
    assert rows[-1] in (4, 8, 12)


def test_an_unclosed_writer_is_closed_at_exit(tmp_path):
    process = start(tmp_path, "two")
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, b"")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"step00000{step}-rank000.parquet" for step in (0, 1)]


def test_a_process_that_forked_off_leaves_the_writer_alone(tmp_path):
    code = WRITE.split("print(")[0] + (
        "import os\n"
        "writer.add(step=1, trainer_logprobs=rows, inference_logprobs=rows)\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    sys.exit(0)\n"
        "os.waitpid(child, 0)\n"
        "print(sum(name.endswith('parquet') for name in os.listdir(sys.argv[1])))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path), ""],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("0\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["step000001-rank000.parquet"]
