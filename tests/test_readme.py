from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import iscope
from iscope.cli.app import run

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
FLOATS = pa.list_(pa.float32())


def snippet(heading: str) -> str:
    section = README.split(f"{heading}\n", 1)[1]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


def generation_batch() -> dict[str, torch.Tensor]:
    """Four rollouts of lengths 3, 1, 2 and 0, padded to 4; the first has a tool token in the middle."""
    completion_mask = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
    tool_mask = torch.ones_like(completion_mask)
    tool_mask[0, 1] = 0
    return {
        "completion_mask": completion_mask,
        "tool_mask": tool_mask,
        "completion_ids": torch.arange(16).reshape(4, 4),
        "old_per_token_logps": -torch.arange(16.0).reshape(4, 4),
        "sampling_per_token_logps": -torch.arange(16.0).reshape(4, 4) - 0.25,
        "advantages": torch.tensor([1.0, -1.0, 0.5, 0.0]),
    }


class FakeTrainer:
    """As much of TRL's trainer as the snippet touches."""

    def __init__(self, output_dir: Path, batch: dict[str, torch.Tensor]) -> None:
        self.args = SimpleNamespace(output_dir=str(output_dir), temperature=0.9, top_p=1.0)
        self.model = SimpleNamespace(training=True)
        self.accelerator = SimpleNamespace(process_index=1)
        self.state = SimpleNamespace(global_step=7)
        self.num_generations = 2
        self.batch = batch

    def _generate_and_score_completions(self, inputs: object) -> dict[str, torch.Tensor]:
        assert inputs == "prompts"
        return self.batch


def trl_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: dict[str, torch.Tensor]) -> pa.Table:
    trl = ModuleType("trl")
    trl.GRPOTrainer = FakeTrainer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "trl", trl)
    names: dict[str, type] = {}
    exec(snippet("### From TRL"), names)
    trainer = names["DumpingTrainer"](tmp_path, batch)
    assert trainer._generate_and_score_completions("prompts") is batch
    return pq.read_table(tmp_path / "logprobs" / "000000-1.parquet")


def test_trl_snippet_writes_a_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = trl_dump(tmp_path, monkeypatch, generation_batch())
    assert table["trainer_logprobs"].type == FLOATS
    assert table["trainer_logprobs"].to_pylist() == [[0.0, -1.0, -2.0], [-4.0], [-8.0, -9.0], []]
    assert table["inference_logprobs"].to_pylist() == [[-0.25, -1.25, -2.25], [-4.25], [-8.25, -9.25], []]
    assert table["loss_mask"].to_pylist() == [[True, False, True], [True], [True, True], []]
    assert table["token_ids"].to_pylist() == [[0, 1, 2], [4], [8, 9], []]
    assert table["advantage"].to_pylist() == [1.0, -1.0, 0.5, 0.0]
    assert table["rollout_id"].to_pylist() == ["0-1-0", "0-1-1", "0-1-2", "0-1-3"]
    assert table["group_id"].to_pylist() == ["0-2", "0-2", "0-3", "0-3"]
    assert table["policy_version"].to_pylist() == table["trainer_version"].to_pylist() == [7] * 4


def test_trl_snippet_needs_no_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = {name: tensor for name, tensor in generation_batch().items() if name != "tool_mask"}
    assert trl_dump(tmp_path, monkeypatch, batch)["loss_mask"].to_pylist()[0] == [True, True, True]


def test_verl_snippet_writes_a_dump(tmp_path: Path) -> None:
    batch = generation_batch()
    mask = batch["completion_mask"] * batch["tool_mask"]
    data = SimpleNamespace(
        batch={
            "response_mask": mask,
            "old_log_probs": batch["old_per_token_logps"],
            "rollout_log_probs": batch["sampling_per_token_logps"],
            "advantages": batch["advantages"][:, None] * mask,
        },
        non_tensor_batch={"uid": np.array(["a", "a", "b", "b"], dtype=object)},
    )
    names: dict[str, object] = {}
    exec(snippet("### From verl"), names)
    names["dump"](data, 3, tmp_path / "dump.parquet")  # type: ignore[operator]
    table = pq.read_table(tmp_path / "dump.parquet")
    assert table["trainer_logprobs"].type == table["advantage"].type == FLOATS
    assert table["trainer_logprobs"].to_pylist() == [[0.0, -1.0, -2.0], [-4.0], [-8.0, -9.0], []]
    assert table["inference_logprobs"].to_pylist() == [[-0.25, -1.25, -2.25], [-4.25], [-8.25, -9.25], []]
    assert table["loss_mask"].to_pylist() == [[True, False, True], [True], [True, True], []]
    assert table["advantage"].to_pylist() == [[1.0, 0.0, 1.0], [-1.0], [0.5, 0.5], []]
    assert table["group_id"].to_pylist() == ["3-a", "3-a", "3-b", "3-b"]


def export_line(rank: int, index: int) -> str:
    return json.dumps(
        {
            "schema_version": 1,
            "step": 2,
            "rank": rank,
            "export_sequence_idx": index,
            "env_name": "math",
            "token_ids": [5, 6, 7],
            "loss_mask": [False, True, True],
            "advantages": [0, 1, 1],
            "inference_logprobs": [0, -0.5, None],
            "trainer_logprobs": [0, -0.75, -2],
            "is_masked": None,
        }
    )


def test_prime_rl_snippet_writes_a_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "outputs" / "token_exports" / "step_2"
    folder.mkdir(parents=True)
    for rank in (0, 1):
        (folder / f"rank_{rank}.jsonl").write_text("\n".join(export_line(rank, index) for index in (0, 1)) + "\n")
    monkeypatch.chdir(tmp_path)
    exec(snippet("### From prime-rl"), {})
    frame = pl.read_parquet("dump.parquet")
    assert frame["rollout_id"].to_list() == ["2-0-0", "2-0-1", "2-1-0", "2-1-1"]
    assert frame.schema["trainer_logprobs"] == frame.schema["advantage"] == pl.List(pl.Float32)
    assert frame["trainer_logprobs"].to_list() == [[0.0, -0.75, -2.0]] * 4
    assert frame["inference_logprobs"].to_list() == [[0.0, -0.5, None]] * 4
    assert frame["loss_mask"].to_list() == [[False, True, True]] * 4
    assert frame["trainer_version"].to_list() == [2] * 4
    assert frame["env"].to_list() == ["math"] * 4


def test_python_snippet_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    exec(snippet("## Python"), {})
    spoken, k3, recipe = capsys.readouterr().out.splitlines()
    assert spoken
    assert float(k3) == pytest.approx(0.014227, abs=5e-7)
    assert recipe.startswith("trl/token_mask:clip_min=0.5,clip_max=2")


def test_the_report_shown_is_the_one_that_is_printed() -> None:
    shown = README.split("<!-- report -->", 1)[1].split("```text\n", 1)[1].split("```", 1)[0]
    page = str(iscope.analyze(ROOT / "sample_data" / "train_async.parquet"))
    assert shown.startswith("iscope · train_async.parquet\n")
    assert page.startswith(shown)
    assert "RECIPES" in shown


def test_the_comparison_shown_is_the_one_that_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    part = README.split("<!-- compare -->", 1)[1]
    shown = part.split("```text\n", 1)[1].split("```", 1)[0]
    words = re.search(r"^`iscope (compare .+)`:$", part, re.MULTILINE)
    assert words is not None
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(ROOT)
    assert run(words[1].split()) == 0
    assert shown.startswith("ADVICE")
    assert "SETTINGS" in shown
    assert shown in capsys.readouterr().out


def test_the_check_shown_is_the_one_that_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    part = README.split("<!-- check -->", 1)[1]
    shown = part.split("```text\n", 1)[1].split("```", 1)[0]
    words = re.search(r"^`iscope (check .+)`,$", part, re.MULTILINE)
    assert words is not None
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(ROOT)
    assert run(words[1].split()) == 1
    assert shown.startswith("iscope check · ")
    assert capsys.readouterr().out.startswith(shown)
