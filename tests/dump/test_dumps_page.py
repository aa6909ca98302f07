"""The recipes of docs/dumps.md, run as they stand there."""

from __future__ import annotations

import re
import types
from pathlib import Path

import numpy as np
import pytest
import torch

import iscope
from iscope.cli.options import From
from iscope.dump.importers.formats import FORMATS
from iscope.dump.schema import CANONICAL

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "dumps.md").read_text(encoding="utf-8")
CODE = dict(re.findall(r"<!-- test: (\w+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))


def test_the_writers_example(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(CODE["writer"], {})
    report = iscope.analyze("dump", recipes=["none"])
    assert report.coverage.rollouts_analyzed == 4


def test_the_example_of_following(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(CODE["writer"], {})
    exec(CODE["follow"], {})
    assert capsys.readouterr().out.startswith("2 0.0")


def test_the_example_for_verl(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mask = torch.tensor([[1, 1, 0, 0], [1, 0, 1, 0]])
    tensors = {
        "old_log_probs": -torch.ones(2, 4),
        "rollout_log_probs": -torch.ones(2, 4) * mask,
        "response_mask": mask,
        "advantages": torch.ones(2, 4) * mask,
        "responses": torch.arange(8).view(2, 4),
        "attention_mask": torch.tensor([[1, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 0]]),
    }
    batch = types.SimpleNamespace(batch=tensors, non_tensor_batch={"uid": np.array(["a", "b"], dtype=object)})
    names: dict = {}
    exec(CODE["verl"], names)
    names["dump"](batch, 3)
    names["writer"].close()
    report = iscope.analyze("dump", recipes=["none"])
    assert (report.coverage.tokens_read, report.coverage.tokens_loss) == (5, 4)


def test_the_example_for_trl(tmp_path, monkeypatch):
    from tests.integrations.test_trl import FakeTrainer

    monkeypatch.chdir(tmp_path)
    trainer = FakeTrainer()
    trainer.train = lambda: [
        trainer._generate_and_score_completions({}),
        trainer.callbacks[0].on_train_end(None, None, None),
    ]
    exec(CODE["trl"], {"trainer": trainer})
    assert iscope.analyze("dump", recipes=["none"]).coverage.rollouts_read == 4


def test_every_format_and_column_is_named():
    (names,) = re.findall(r"`--from ([^`]+)`", PAGE)
    assert {*names.split("|")} == {*FORMATS, "parquet"}
    assert all(name in From.__metadata__[0].help for name in names.split("|"))
    assert all(f"`{name}`" in PAGE for name in CANONICAL)


@pytest.mark.parametrize("name", ["docs/dumps.md"])
def test_the_readme_links_to_it(name):
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    assert f"]({name})" in readme
