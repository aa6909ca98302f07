"""What a view makes of loss tokens without a usable logprob."""

from __future__ import annotations

import math

import polars as pl
import pytest
import torch

import iscope
from iscope.api import make_plan
from iscope.ledger.measure import measure
from iscope.replay.usable import usable
from iscope.replay.view import scored_view, token_view
from iscope.rollouts import RolloutBatch

NAN = float("nan")
TRAINER, INFERENCE, CURRENT = [-0.1, -2.0, NAN, NAN], [-3.0, NAN, -0.5, -9999.0], [NAN, -1.0, -4.0, NAN]


def batch(**changes) -> RolloutBatch:
    columns = {"trainer_logprobs": TRAINER, "inference_logprobs": INFERENCE, "current_logprobs": CURRENT} | changes
    return RolloutBatch(
        offsets=torch.tensor([0, 4]),
        **{name: torch.tensor(values) for name, values in columns.items()},
        advantage=torch.tensor([1.0], dtype=torch.float64),
        columns=pl.DataFrame({"rollout_id": ["r0"]}),
    )


def test_neutral_tokens_have_one_probability_under_all_policies():
    found = batch(ref_logprobs=[-7.0] * 4)
    view, _ = scored_view(found, usable(found), "neutral")
    for policy in (view.trainer, view.inference, view.current, view.ref):
        assert policy.tolist() == pytest.approx([-3.0, -2.0, -0.5, -7.0])


def test_no_rule_rejects_a_neutral_token():
    """A rule that compares probabilities sees the same one on both sides, token by token as in the sums."""
    assert measure(batch(), make_plan(["prime-rl/ipo"], unscored="neutral")).columns["recipe0:kept"].tolist() == [4]
    replayed = iscope.replay(batch(), recipe="prime-rl/ipo", unscored="neutral").to_polars()
    assert replayed["keep"].to_list() == [[True] * 4]
    assert replayed["weight"].to_list() == [[1.0] * 4]


def test_a_nan_carries_no_gradient_under_the_convention_of_frameworks():
    view = token_view(batch(current_logprobs=[NAN, -1.0, -float("inf"), 0.5]), None, "trl")
    assert view.uncertainty.tolist() == pytest.approx([0.0, 1 - math.exp(-1.0), 1.0, 0.0])
    found = measure(batch(current_logprobs=[NAN] * 4), make_plan())
    gradients = {name: column for name, column in found.trained.items() if "gradient" in name}
    assert gradients
    for name, column in gradients.items():
        assert column.isfinite().all(), name
