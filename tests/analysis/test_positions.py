"""k3 and mean abs(d) by position, against a plain loop over tokens."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import polars as pl
import pytest

from iscope.analysis.findings.tokens import Tokens
from iscope.analysis.positions import positions
from iscope.ledger.sample import Sample

RANDOM = np.random.default_rng(4)


def sample(lengths: list[int], share: float) -> Sample:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    inference = -RANDOM.exponential(1.0, offsets[-1]) - 0.1
    trainer = inference + RANDOM.normal(0, 0.2, offsets[-1])
    lists = {"trainer_logprobs": np.minimum(trainer, 0.0), "inference_logprobs": inference}
    frame = pl.DataFrame({"rollout_id": [f"r{i}" for i in range(len(lengths))], "abs_sum": [1.0] * len(lengths)})
    mask = RANDOM.random(offsets[-1]) < share
    return Sample(frame, offsets, {name: v.astype(np.float32) for name, v in lists.items()} | {"loss_mask": mask})


@pytest.mark.parametrize("share", [1.0, 0.6])
def test_against_a_plain_loop(share: float) -> None:
    whole = sample([1, 40, 3, 130, 7], share)
    expected: dict[int, list[float]] = defaultdict(list)
    for start, stop in zip(whole.offsets, whole.offsets[1:], strict=False):
        scored = [token for token in range(start, stop) if whole.lists["loss_mask"][token]]
        for token in scored:
            d = whole.lists["trainer_logprobs"][token] - whole.lists["inference_logprobs"][token]
            expected[(token - scored[0] + 1).bit_length() - 1].append(float(d))
    found = positions(Tokens.of(whole))
    assert [row["low"] for row in found] == [2**power - 1 for power in sorted(expected)]
    for row, power in zip(found, sorted(expected), strict=True):
        values = expected[power]
        assert (row["high"], row["tokens"]) == (2 ** (power + 1) - 2, len(values))
        assert row["abs_mean"].value == pytest.approx(math.fsum(map(abs, values)) / len(values), rel=1e-12)
        k3 = math.fsum(math.expm1(d) - d for d in values) / len(values)
        assert row["k3"].value == pytest.approx(k3, rel=1e-10)


def test_nothing_to_look_at() -> None:
    assert positions(Tokens.of(Sample.empty())) == []
