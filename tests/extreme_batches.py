"""Random batches with log-ratios of every size."""

from __future__ import annotations

import numpy as np
import polars as pl
import torch
from hypothesis import strategies as st

from iscope.rollouts import RolloutBatch


@st.composite
def batches(draw) -> RolloutBatch:
    """Rollouts of every length with log-ratios of every size, unusable values and any of the optional columns."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = rng.choice([0, 1, 2, 17, 300], draw(st.integers(1, 9)))
    tokens, spread = int(lengths.sum()), draw(st.sampled_from([0.0, 1e-6, 0.01, 0.2, 3.0, 60.0]))
    inference = -rng.gamma(0.45, draw(st.sampled_from([1e-4, 3.0])), tokens).astype(np.float32)

    def policy() -> torch.Tensor:
        far = rng.random(tokens) < draw(st.sampled_from([0.0, 0.02, 1.0]))
        moved = inference + np.where(far, spread, spread / 50) * rng.standard_normal(tokens)
        moved = np.where(rng.random(tokens) < 0.3, inference, np.minimum(moved, 0.15)).astype(np.float32)
        unusable = rng.random(tokens) < draw(st.sampled_from([0.0, 0.05]))
        return torch.from_numpy(np.where(unusable, rng.choice([np.nan, np.inf, -9999.0, 0.7], tokens), moved)).float()

    per_token = draw(st.booleans())
    advantage = rng.choice([-2.0, -0.3, 0.0, 1.5], tokens if per_token else len(lengths))
    present = draw(st.tuples(st.booleans(), st.booleans(), st.booleans()))
    return RolloutBatch(
        offsets=torch.from_numpy(np.concatenate([[0], lengths]).cumsum()),
        trainer_logprobs=policy(),
        inference_logprobs=torch.from_numpy(inference),
        current_logprobs=policy() if present[0] else None,
        ref_logprobs=policy() if present[1] else None,
        loss_mask=torch.from_numpy(rng.random(tokens) < 0.9),
        advantage=torch.from_numpy(advantage) if present[2] else None,
        advantage_per_token=per_token and present[2],
        columns=pl.DataFrame({"rollout_id": [f"r{row}" for row in range(len(lengths))]}),
    )
