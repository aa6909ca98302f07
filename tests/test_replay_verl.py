"""verl's recipes replayed on a dump, batch by batch: loss and coefficients against the losses written plainly."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
import torch

import iscope
from tests.test_losses import random_rollouts
from tests.test_verl_losses import REJECTIONS, plain, text_of

LENGTHS, ADVANTAGES = (5, 0, 1, 9, 30, 7, 4), (1.5, -1.0, -0.7, 0.0, 2.0, -0.3, -2.0)
REJECTION = "option=token_k2,seq_sum_k1,seq_max_k3,rs_threshold=0.1,0.5_3,0.2"


def rollouts():
    """Logprobs that can all be scored."""
    found = random_rollouts(3, LENGTHS, ADVANTAGES, spread=0.3)
    return [
        {name: value if name == "advantage" else value.clamp(max=-0.01) for name, value in rollout.items()}
        for rollout in found
    ]


def table_of(drawn):
    columns = {f"{name}_logprobs": [r[name].tolist() for r in drawn] for name in ("trainer", "inference", "current")}
    ids = [f"r{index}" for index in range(len(drawn))]
    lists = {name: pl.List(pl.Float64) for name in columns}
    data = {"rollout_id": ids, "advantage": [r["advantage"] for r in drawn]} | columns
    return pl.DataFrame(data, schema_overrides=lists)


@pytest.mark.parametrize("batch", ["all", 2, 3])
@pytest.mark.parametrize("use_v1", [True, False])
@pytest.mark.parametrize("agg", ["token-mean", "seq-mean-token-mean"])
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_each_batch_is_normalised_by_itself(level, agg, use_v1, batch):
    drawn, options = rollouts(), {"use_v1": use_v1}
    text = text_of(
        f"level={level},is_threshold=1.3,batch_normalize=true",
        REJECTION,
        loss_type="vanilla",
        loss_agg_mode=agg,
        **options,
    )
    found = iscope.replay(table_of(drawn), recipe=text, precision="float64", batch=batch)
    size = len(drawn) if batch == "all" else batch
    settings = {"weighting": (level, None, 1.3), "rejection": REJECTIONS[REJECTION], "normalise": True, "agg": agg}
    expected = [plain(drawn[at : at + size], **settings, **options) for at in range(0, len(drawn), size)]
    assert list(found.loss.values()) == pytest.approx([loss for loss, _ in expected], rel=1e-10)
    coefficient = [x for row in found.to_polars()["coefficient"] for x in row]
    gradient = torch.cat([gradient for _, gradient in expected])
    np.testing.assert_allclose(coefficient, gradient.numpy(), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize(
    "recipe", ["verl/rollout_is:threshold=1.2,batch_normalize=true", "verl/rollout_is:token,1.2,true"]
)
def test_the_order_of_the_dump_changes_no_mean(recipe):
    table = table_of(rollouts())
    one = iscope.replay(table, recipe=recipe, precision="float64").to_polars()
    other = iscope.replay(table.reverse(), recipe=recipe, precision="float64").to_polars().reverse()
    assert one["weight"].to_list() == other["weight"].to_list()


@pytest.mark.parametrize("use_v1", [True, False])
@pytest.mark.parametrize("agg", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"])
def test_gradient_left_is_divided_as_the_loss_is(agg, use_v1):
    """Rejected tokens leave the denominators that verl takes them out of, in the report as in the replay."""
    table = table_of(rollouts())
    spec = f"verl/rollout_rs:token_k1,1.2,loss_agg_mode={agg},use_v1={str(use_v1).lower()}"
    report = iscope.analyze(table, recipes=[spec], precision="float64").recipes[0].figures
    sizes = []
    for recipe in (spec, f"verl/none:loss_agg_mode={agg}"):
        coefficient = iscope.replay(table, recipe=recipe, precision="float64").to_polars()["coefficient"]
        rows = zip(coefficient.to_list(), table["current_logprobs"].to_list(), strict=True)
        sizes.append([sum(abs(c) * -math.expm1(p) for c, p in zip(*row, strict=True)) for row in rows])
    left = report["gradient_left"]["all"].value
    assert left == pytest.approx(sum(sizes[0]) / sum(sizes[1]), rel=1e-9)
    expected = sum(sizes[0]) ** 2 / sum(x * x for x in sizes[0])
    assert report["effective_batch_size"]["value"] == pytest.approx(expected, rel=1e-9)
