"""Histograms, bounds, positions and the worst of a real dump, against plain loops over its tokens."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from iscope import analyze
from iscope.ledger import histogram
from iscope.model import Figure, Report

SAMPLE = Path(__file__).resolve().parent.parent / "data" / "sample" / "train_async"
PAIR = "trainer/inference"


def test_middles_of_bins() -> None:
    bins = np.arange(histogram.BINS)
    expected = [sum(histogram.edges(index)) / 2 for index in bins.tolist()]
    assert histogram.middles(bins).tolist() == expected


@cache
def report() -> Report:
    return analyze(
        trainer=SAMPLE / "trainer_fp32.parquet",
        vllm=SAMPLE / "vllm.parquet",
        recipes=["trl/token_mask:clip_min=0.5,clip_max=2", "trl/sequence_mask:clip_max=3", "none"],
    )


@cache
def rollouts() -> dict[str, list[float]]:
    """d of the scored tokens of each rollout, as the files have them."""
    sides = [pl.read_parquet(SAMPLE / f"{name}.parquet") for name in ("trainer_fp32", "vllm")]
    trainer, inference = (dict(zip(side["rollout_id"], side["logprobs"], strict=True)) for side in sides)
    masks = [
        dict(zip(side["rollout_id"], side["loss_mask"], strict=True)) for side in sides if "loss_mask" in side.columns
    ]
    found = {}
    for name, ours in trainer.items():
        mask = masks[0][name] if masks else [True] * len(ours)
        pairs = zip(ours, inference[name], mask, strict=True)
        found[name] = [float(np.float32(p) - np.float32(q)) for p, q, scored in pairs if scored]
    return found


def spread(level: str) -> dict[str, Any]:
    return report().parts["distributions"]["ratio"][PAIR][level]  # type: ignore[index,call-overload,return-value]


@pytest.mark.parametrize("level", ["token", "sequence", "geometric"])
def test_a_histogram_counts_what_a_loop_counts(level: str) -> None:
    made = {
        "token": [d for tokens in rollouts().values() for d in tokens],
        "sequence": [math.fsum(tokens) for tokens in rollouts().values() if tokens],
        "geometric": [math.fsum(tokens) / len(tokens) for tokens in rollouts().values() if tokens],
    }[level]
    found = spread(level)
    assert found["below"] + sum(found["counts"]) + found["above"] == len(made)
    counts = Counter(math.floor((value - found["start"]) / found["width"]) for value in made)
    plain = [counts[place] for place in range(len(found["counts"]))]
    # Tokens come from bins at most 0.8% of their value wide: the few next to an edge may be counted beyond it.
    strays = sum(abs(a - b) for a, b in zip(plain, found["counts"], strict=True))
    assert strays <= (0.02 * len(made) if level == "token" else 0)
    assert 1 < len(found["counts"]) <= 161
    assert max(found["below"], found["above"]) <= math.ceil(0.01 * len(made))


def test_bounds_are_where_the_recipes_put_them() -> None:
    bounds = report().parts["distributions"]["bounds"]  # type: ignore[index,call-overload]
    assert [(one["level"], one["rule"], one["low"], one["high"]) for one in bounds] == [
        ("token", "token_mask", pytest.approx(math.log(0.5)), pytest.approx(math.log(2))),
        ("sequence", "sequence_mask", None, pytest.approx(math.log(3))),
    ]


def test_positions_add_up_to_the_whole() -> None:
    found = report().parts["distributions"]["position"]  # type: ignore[index,call-overload]
    tokens: Counter[int] = Counter()
    k3: Counter[int] = Counter()
    for one in rollouts().values():
        for position, d in enumerate(one):
            octave = int(math.log2(position + 1))
            tokens[octave] += 1
            k3[octave] += math.expm1(d) - d  # type: ignore[assignment]
    assert [row["tokens"] for row in found] == [tokens[octave] for octave in sorted(tokens)]
    assert [row["low"] for row in found] == [2**octave - 1 for octave in sorted(tokens)]
    for row, octave in zip(found, sorted(tokens), strict=True):
        assert row["k3"].value == pytest.approx(k3[octave] / tokens[octave], rel=1e-9)


def test_the_worst_are_those_a_sort_finds() -> None:
    found: Any = report().parts["worst"]
    sums = {name: math.fsum(tokens) for name, tokens in rollouts().items()}
    expected = sorted(sums, key=lambda name: -abs(sums[name]))[:20]
    assert [row["rollout_id"] for row in found["rollouts"]] == expected
    for row in found["rollouts"]:
        own = rollouts()[row["rollout_id"]]
        assert row["log_ratio_sum"].value == pytest.approx(sums[row["rollout_id"]])
        assert row["log_ratio_mean"].value == pytest.approx(sums[row["rollout_id"]] / len(own))
        assert row["abs_max"].value == pytest.approx(max(map(abs, own)))
    every = sorted((abs(d) for tokens in rollouts().values() for d in tokens), reverse=True)
    listed = [rollouts()[row["rollout_id"]][row["position"]] for row in found["tokens"]]
    assert list(map(abs, listed)) == every[:20]  # of equal ones any
    assert [row["log_ratio"].value for row in found["tokens"]] == pytest.approx(listed)
    assert len({(row["rollout_id"], row["position"]) for row in found["tokens"]}) == 20
    assert found["tokens_looked_at"] == len(every)


def test_a_strip_is_the_tokens_around_the_largest() -> None:
    for row in report().parts["worst"]["rollouts"]:  # type: ignore[index,call-overload]
        own, strip = rollouts()[row["rollout_id"]], row["strip"]
        at = max(range(len(own)), key=lambda place: abs(own[place]))
        first, last = max(0, at - 64), min(len(own), at + 65)
        assert strip["positions"] == list(range(first, last))
        assert strip["log_ratios"] == pytest.approx(own[first:last], abs=6e-5)
        assert (strip["at"], strip["before"], strip["after"]) == (at - first, first, len(own) - last)


def test_equal_log_ratios_make_one_bin_and_no_division_by_zero() -> None:
    same = pl.DataFrame({"trainer_logprobs": [[-1.0, -2.0]] * 4, "inference_logprobs": [[-1.0, -2.0]] * 4})
    found: Any = analyze(same, recipes=["none"]).parts["distributions"]
    for level in ("token", "sequence", "geometric"):
        one = found["ratio"][PAIR][level]
        assert (one["counts"], one["below"], one["above"]) == ([8 if level == "token" else 4], 0, 0)


def test_without_a_scored_token_there_is_nothing_to_spread() -> None:
    empty = pl.DataFrame({"trainer_logprobs": [[float("nan")]], "inference_logprobs": [[-1.0]]})
    parts = analyze(empty, recipes=["none"]).parts
    assert "distributions" not in parts
    assert "worst" not in parts


def test_rollouts_of_one_id_have_no_strip_rather_than_anothers() -> None:
    twice = pl.DataFrame(
        {"rollout_id": ["a", "a"], "trainer_logprobs": [[-1.0], [-2.0]], "inference_logprobs": [[-1.5], [-4.0]]}
    )
    found: Any = analyze(twice, recipes=["none"]).parts.get("worst")
    assert all("log_ratios" not in row["strip"] for row in found["rollouts"])


def test_what_is_carried_along_survives_json() -> None:
    saved = Report.from_dict(report().to_dict())
    assert saved.parts == report().parts
    first: Any = report().parts["worst"]["rollouts"][0]  # type: ignore[index,call-overload]
    assert isinstance(first["advantage"], Figure)
