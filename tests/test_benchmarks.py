"""The table of bars: what holds, what it prints, and how the frameworks' own code is called."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from benchmarks import bars, peer_calls, peers, run, start
from benchmarks.bars import Bar
from iscope.recipes import parse
from iscope.recipes.defaults import DEFAULT_RECIPES


@pytest.mark.parametrize(
    ("value", "limit", "at_least", "holds"),
    [(1.5, 1.5, False, True), (1.51, 1.5, False, False), (50, 50, True, True), (49.9, 50, True, False)],
)
def test_a_bar_holds_at_its_limit(value, limit, at_least, holds):
    assert Bar("x", value, [value], limit, at_least=at_least).holds is holds


def test_a_row_says_value_range_bar_and_verdict():
    row = Bar("analyze / floor", 1.6, [1.4, 1.6, 1.9], 1.5)
    assert row.line.split("  ")[0] == "analyze / floor"
    assert row.line.split()[3:] == ["1.60", "[1.40,", "1.90]", "<=", "1.50", "DOES", "NOT", "HOLD"]
    assert Bar("x", 0.021, [0.021], None, "{:.1%}").line.split() == ["x", "2.1%", "[2.1%,", "2.1%]"]


def test_a_ratio_is_of_medians_and_its_range_of_pairs():
    row = bars.over("x", [2.0, 9.0, 4.0], [1.0, 3.0, 1.0])
    assert row.value == 4.0
    assert list(row.runs) == [2.0, 3.0, 4.0]


def test_tables_in_a_row_are_summed_up():
    tables = [[Bar("a", value, [value], 2.0), Bar("b", 1.0, [1.0])] for value in (1.0, 3.0, 2.0)]
    assert bars.summary(tables) == ["a: held in 2 of 3 tables (1.00, 3.00, 2.00)"]


def peer(name: str, seconds: float, settings: list[str]) -> peers.Peer:
    stages = {"replay": [seconds], "padding": [2 * seconds], "decode": [3 * seconds, 4 * seconds, 5 * seconds]}
    stages["cpu"] = [6 * seconds]
    return peers.Peer(name, f"{name} 1.0", "f()", settings, 1, 1000, 3000, stages)


def test_peers_run_one_after_the_other():
    found = [peer("verl", 1.0, ["decoupled_seq_is", "decoupled_token_is"]), peer("trl", 0.5, ["token_mask"])]
    rows = list(peers.bars({"default": [4e-5], "same": [6e-5], "cpu": [9e-5]}, found))
    # (4 + 2) seconds for 1000 tokens, against 40 and 60 microseconds a token.
    assert rows[0].value == pytest.approx(150)
    assert list(rows[0].runs) == pytest.approx([112.5, 187.5])
    assert (rows[0].limit, rows[0].holds) == (peers.TIMES_FASTER, True)
    assert [row.value for row in rows[1:3]] == pytest.approx([75, 37.5])
    # Processor time; iscope with the same settings; half of verl, where one of its two presets runs.
    assert [row.value for row in rows[3:6]] == pytest.approx([100, 100, 100])
    assert rows[5].what == "  with one preset of verl, the mean of them"
    assert [row.limit for row in rows[1:]] == [None] * (len(rows) - 1)


def test_one_peer_alone_has_no_bar():
    rows = list(peers.bars({"default": [1e-5], "same": [1e-5], "cpu": [1e-5]}, [peer("trl", 1.0, ["token_mask"])]))
    assert {row.limit for row in rows} == {None}


def test_settings_of_peers_are_recipes():
    names = [
        *peer("verl", 1.0, ["decoupled_k3_rs_token_tis", "decoupled_token_icepop"]).recipes,
        *peer("trl", 1.0, list(peer_calls.TRL_MODES)).recipes,
    ]
    assert [parse(name).row.name for name in names[:2]] == names[:2]
    assert [parse(name).options["clip_max"] for name in names[2:]] == [peer_calls.TRL_CLIP_MAX] * 4


def test_a_peer_that_is_not_installed_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(peers, "size_of", lambda _: (1000, 1))
    monkeypatch.setitem(peer_calls.PEERS, "trl", lambda: pytest.fail("called here"))
    blocked = tmp_path / "python"
    blocked.write_text(f'#!/bin/sh\nshift\nshift\nexec {sys.executable} -c "$CODE" "$@"\n')
    blocked.chmod(0o755)
    code = (
        "import sys, runpy; sys.modules['trl'] = None; runpy.run_module('benchmarks.peer_calls', run_name='__main__')"
    )
    monkeypatch.setenv("CODE", code)
    (said,) = peers.compared(["trl"], str(blocked), tmp_path / "absent.parquet", 1)
    assert said.startswith("trl: not measured, ")
    assert said.endswith(f"To measure it: {peers.INSTALL['trl']}")


class Trainer:
    """Stands for a trainer whose weights are computed in the middle of a long method."""

    def _generate_and_score_completions(self, inputs):
        if inputs:
            old_per_token_logps = None
        if self.use_vllm and self.vllm_importance_sampling_correction:
            vllm_importance_sampling_ratio = torch.exp(old_per_token_logps - sampling_per_token_logps)  # noqa: F821
            if self.vllm_importance_sampling_mode == "token_truncate":
                vllm_importance_sampling_ratio = vllm_importance_sampling_ratio.clamp(max=2.0)
        raise AssertionError("the rest of the method ran")


class OtherNames:
    def _generate_and_score_completions(self, inputs):
        if self.use_vllm:
            vllm_importance_sampling_ratio = torch.exp(another_name)  # noqa: F821, F841


def settings(mode: str, low: float | None = None, high: float | None = 3.0) -> SimpleNamespace:
    return SimpleNamespace(
        use_vllm=True,
        vllm_importance_sampling_correction=True,
        vllm_importance_sampling_mode=mode,
        vllm_importance_sampling_clip_min=low,
        vllm_importance_sampling_clip_max=high,
    )


def test_only_the_statements_for_the_weights_are_taken():
    weights = peer_calls.statements(Trainer, settings("token_truncate"))
    trainer, inference = torch.tensor([[0.0, -1.0]]), torch.tensor([[-2.0, -1.5]])
    mask = torch.ones(1, 2, dtype=torch.int64)
    found = weights(settings("token_truncate"), mask, None, trainer, inference)
    assert found.tolist() == [[2.0, pytest.approx(1.6487213)]]


@pytest.mark.parametrize("trainer", [OtherNames, object])
def test_where_they_are_not_found_nothing_is_taken(trainer):
    assert peer_calls.statements(trainer, settings("token_mask")) is None


@pytest.mark.parametrize(
    ("mode", "weights"),
    [
        ("token_truncate", [[2.0, 0.5, 1.0], [1.0, 1.0, 0.5]]),
        ("token_mask", [[0.0, 0.5, 1.0], [1.0, 1.0, 0.0]]),
        ("sequence_truncate", [[2.0], [0.5]]),
        ("sequence_mask", [[2.0], [0.0]]),
    ],
)
def test_the_expression(mode, weights):
    ratios = torch.tensor([[4.0, 0.5, 9.0], [1.0, float("nan"), 0.25]])
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    found = peer_calls.expression(settings(mode, 0.5, 2.0), mask, None, ratios.log(), torch.zeros(2, 3))
    torch.testing.assert_close(found, torch.tensor(weights))


def test_batches_are_padded_with_zeros():
    batch = tuple([torch.ones(2), torch.ones(3)] for _ in range(3))
    trainer, _, mask = peer_calls.padded(batch, torch.int64)
    assert trainer.tolist() == [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    assert mask.dtype == torch.int64


def test_recipes_that_are_added_are_twenty_of_each():
    from benchmarks.added import ADDED, RECIPES

    for specs in RECIPES.values():
        assert len({parse(spec).spec for spec in specs} - {parse(spec).spec for spec in DEFAULT_RECIPES}) == ADDED


def test_the_table_prints_its_sections(monkeypatch, capsys):
    monkeypatch.setattr(start, "COMMANDS", ("--version",))
    monkeypatch.setattr(sys, "argv", ["run", "--only", "start", "--quick", "--repeat", "2"])
    run.main()
    lines = capsys.readouterr().out.splitlines()
    assert sum("iscope --version, s, quietest  " in line for line in lines) == 2
    assert lines[-1] == "iscope --version, times it imports torch: held in 2 of 2 tables (0, 0)"


def test_an_unknown_section_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["run", "--only", "floor,nothing"])
    with pytest.raises(SystemExit, match="2"):
        run.main()
    assert "no section 'nothing'; there are floor, added," in capsys.readouterr().err
