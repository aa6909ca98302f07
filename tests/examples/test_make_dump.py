from __future__ import annotations

import runpy
import sys
import types
from pathlib import Path

import polars as pl
import pytest
import torch

import iscope

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "ci" / "make_dump.py"
VOCABULARY = 11


class Model(torch.nn.Module):
    """Logits that depend on the token before, so that a shift by one would show."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(VOCABULARY, VOCABULARY, generator=torch.Generator().manual_seed(0)))

    def forward(self, tokens):
        return types.SimpleNamespace(logits=self.table[tokens])


def engine(model, temperature):
    """A module that stands in for vLLM and samples from the model itself."""

    class LLM:
        def __init__(self, model, logprobs_mode):
            assert logprobs_mode == "processed_logprobs"

        def generate(self, prompts, settings):
            for number, _ in enumerate(prompts):
                outputs = [self.output(number, member) for member in range(settings.n)]
                yield types.SimpleNamespace(prompt_token_ids=[number % VOCABULARY, 3], outputs=outputs)

        def output(self, number, member):
            ids = [(number + member + t) % VOCABULARY for t in range(4)]
            before = [3, *ids[:-1]]
            logprobs = (model.table / temperature).log_softmax(-1)
            entries = [
                {
                    0: types.SimpleNamespace(logprob=-0.001),
                    token: types.SimpleNamespace(logprob=logprobs[last, token].item()),
                }
                for last, token in zip(before, ids, strict=True)
            ]
            return types.SimpleNamespace(token_ids=ids, logprobs=entries, finish_reason="length")

    return types.SimpleNamespace(LLM=LLM, SamplingParams=lambda **options: types.SimpleNamespace(**options))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_an_engine_that_samples_from_the_model_does_not_differ_from_it(tmp_path, monkeypatch, capsys, temperature):
    model = Model()
    auto = types.SimpleNamespace(from_pretrained=lambda name, dtype: model.to(dtype))
    monkeypatch.setitem(sys.modules, "vllm", engine(model, temperature))
    monkeypatch.setitem(sys.modules, "transformers", types.SimpleNamespace(AutoModelForCausalLM=auto))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    script = runpy.run_path(str(SCRIPT))
    arguments = ["--model", "m", "-o", str(tmp_path), "--dtype", "float32", "--temperature", str(temperature)]
    script["main"](arguments)
    assert f"{tmp_path}: 192 rollouts in 24 groups" in capsys.readouterr().out
    report = iscope.analyze(tmp_path, recipes=["none"])
    assert report.coverage.rollouts_read == 192
    assert report.coverage.tokens_scored == 4 * 192
    assert report.to_dict()["mismatch"]["abs_max"]["value"] < 1e-6
    base = tmp_path / "base.json"
    assert iscope.check(tmp_path, gates="default", write_baseline=base)
    assert iscope.check(tmp_path, gates="default", baseline=base)
    moved = pl.col("trainer_logprobs").list.eval(pl.element() - 0.1)
    worse = pl.read_parquet(tmp_path / "*.parquet").with_columns(moved)
    failed = iscope.check(worse, gates="default", baseline=base).failures
    assert "mismatch.k3" in {gate.figure for gate in failed}
