"""Random ragged rollouts for property tests."""

from __future__ import annotations

import polars as pl
from hypothesis import strategies as st

from iscope.rollouts import RolloutBatch

# Log-ratios of every size, none within float32 rounding of a bound that the tests use (but 0 exactly on the bound 1).
_LOG_RATIOS = st.sampled_from(
    [0.0, 0.001, -0.003, 0.02, -0.05, 0.3, -0.3, 0.9, -0.9, 1.4, -1.4, 3.0, -3.0, 12.0, -12.0]
)
_UNUSABLE = st.sampled_from([float("nan"), float("inf"), float("-inf"), -9999.0, 0.7])


@st.composite
def rollouts(draw, min_size=0, max_size=8, unusable=False):
    """Draw rollouts: some empty, some masked, with unusable values on request."""
    drawn = []
    for index in range(draw(st.integers(min_size, max_size))):
        length = draw(st.integers(0, 12))
        inference = [-draw(st.integers(1, 400)) / 64 for _ in range(length)]
        trainer = [v + draw(_LOG_RATIOS) for v in inference]
        trainer = [t if t <= 0.2 else v - 0.0625 for t, v in zip(trainer, inference, strict=True)]
        mask = draw(st.lists(st.booleans(), min_size=length, max_size=length))
        if unusable and length:
            side = draw(st.sampled_from([trainer, inference]))
            side[draw(st.integers(0, length - 1))] = draw(_UNUSABLE)
        drawn.append(
            {
                "id": f"r{index}",
                "trainer": trainer,
                "inference": inference,
                "mask": mask,
                "advantage": draw(st.sampled_from([-1.5, -0.25, 0.0, 0.5, 2.0])),
                "step": draw(st.integers(0, 2)),
            }
        )
    return drawn


def batch_of(drawn) -> RolloutBatch:
    """Build a batch of drawn rollouts."""
    columns = pl.DataFrame(
        {"rollout_id": [r["id"] for r in drawn], "step": [r["step"] for r in drawn]},
        schema={"rollout_id": pl.String, "step": pl.Int64},
    )
    return RolloutBatch.from_lists(
        [r["trainer"] for r in drawn],
        [r["inference"] for r in drawn],
        [r["mask"] for r in drawn],
        advantage=[r["advantage"] for r in drawn],
        columns=columns,
    )


def table_of(drawn) -> pl.DataFrame:
    """Build the canonical table of drawn rollouts."""
    floats = pl.List(pl.Float32)
    return pl.DataFrame(
        {
            "rollout_id": [r["id"] for r in drawn],
            "step": [r["step"] for r in drawn],
            "advantage": [r["advantage"] for r in drawn],
            "trainer_logprobs": [r["trainer"] for r in drawn],
            "inference_logprobs": [r["inference"] for r in drawn],
            "loss_mask": [r["mask"] for r in drawn],
        },
        schema={
            "rollout_id": pl.String,
            "step": pl.Int64,
            "advantage": pl.Float64,
            "trainer_logprobs": floats,
            "inference_logprobs": floats,
            "loss_mask": pl.List(pl.Boolean),
        },
    )
