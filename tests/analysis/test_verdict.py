"""The verdict: its word by severity, what it names, and what it says to try."""

from __future__ import annotations

import pytest

from iscope.analysis.levels import Levels
from iscope.analysis.verdict import verdict
from iscope.errors import UsageError
from iscope.model import Figure, Finding
from tests.render.reports import coverage


def found(code: str, severity: str, title: str) -> Finding:
    return Finding(code, severity, title, "It shows.", action=f"mend {code}")


def of(k3, *findings, **options):
    return verdict({"k3": k3}, coverage(), findings, **options)


def test_errors_come_first_and_name_themselves():
    said = of(Figure(0.001), found("IS006", "error", "Shift by one token"), found("IS013", "warning", "Policy lag"))
    assert said.word == "DATA FAULT"
    assert said.message.startswith("shift by one token (IS006); k3 is 0.001 nats per token over ")
    assert said.message.endswith(" scored tokens.")
    assert said.action == "mend IS006"


def test_warnings():
    codes = ("IS012", "IS013", "IS014", "IS016")
    said = of(Figure(0.02), *(found(code, "warning", f"Fault {code}") for code in codes))
    assert said.word == "NOT HEALTHY"
    assert said.message.startswith("fault IS012 (IS012); fault IS013 (IS013); fault IS014 (IS014); 1 more; k3 is 0.02")


def test_information_and_recipes_do_not_make_a_dump_ill():
    recipe = found("IS019", "warning", "Bounds narrower than the noise")
    said = of(Figure(0.001), recipe, found("IS018", "information", "bf16 grid"))
    assert said.word == "SMALL MISMATCH"
    assert said.message.endswith(" Bounds narrower than the noise (IS019).")
    assert said.action == "mend IS019"


@pytest.mark.parametrize(
    ("k3", "word", "place"),
    [
        (0.0019, "SMALL MISMATCH", "at the level of healthy runs (dense bf16: up to 0.002)."),
        (0.003, "ELEVATED MISMATCH", "at the level of healthy mixture of experts and fp8 rollouts."),
        (0.01, "ELEVATED MISMATCH", "above healthy runs (dense bf16: up to 0.002)."),
        (0.02, "LARGE MISMATCH", "above 0.015, where prime-rl refuses a new model."),
    ],
)
def test_places(k3, word, place):
    said = of(Figure(k3))
    assert said.word == word
    assert said.message.endswith(place)


def test_a_large_mismatch_is_said_in_whole_nats():
    assert of(Figure(8458.3)).message.startswith("k3 is 8,458 nats per token over ")


def test_own_level():
    said = of(Figure(0.004), levels=Levels.of(0.005))
    assert (said.word, said.message.rpartition(", ")[2]) == (
        "SMALL MISMATCH",
        "at the level of healthy runs (yours: up to 0.005).",
    )
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="positive number"):
            Levels.of(wrong)


def test_no_data():
    said = of(Figure.absent("no scored tokens"))
    assert (said.word, said.action) == ("NO DATA", "")
    absent = {"k3": Figure.absent("no scored tokens")}
    masked = verdict(absent, coverage(tokens_loss=0, tokens_scored=0))
    assert masked.message == "none of 40,000 tokens is in the loss mask."
    assert "loss_mask" in masked.action
    nothing = verdict(absent, coverage(rollouts_read=0, tokens_read=0, tokens_loss=0, tokens_scored=0))
    assert (nothing.message, nothing.action) == ("no rollout was read.", "")
    unusable = verdict(absent, coverage(tokens_scored=0), [found("IS002", "error", "Unusable logprobs")])
    assert unusable.action == "mend IS002"
