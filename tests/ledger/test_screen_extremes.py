"""What the screen leaves inside adds the same as what is replayed token by token, on extreme dumps too."""

from __future__ import annotations

import numpy as np
import polars as pl
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import iscope.ledger.blocks
import iscope.ledger.measure
from iscope.api import make_plan
from iscope.ledger.measure import Measured, measure
from iscope.ledger.plan import Plan
from iscope.ledger.screen import Screen, screen_of
from iscope.recipes.defaults import DEFAULT_RECIPES
from iscope.rollouts import RolloutBatch
from tests.measured import assert_close, values_of

EXTRA = (
    "trl/token_truncate:beta=0.04",
    "nemo-rl/icepop:0.5,5",
    "openrlhf/icepop:0.9,1.1",
    "prime-rl/ref_kl",
)
# Nothing is inside the first; the second replays every recipe on every token.
NOWHERE = (float("inf"), float("-inf"))


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


def measured(batch: RolloutBatch, plan: Plan, screen: Screen | None = None, block_tokens: int = 2**16) -> Measured:
    """Measure with another screen, in blocks of another size."""
    before = iscope.ledger.measure.screen_of, iscope.ledger.blocks._TOKENS
    if screen is not None:
        iscope.ledger.measure.screen_of = lambda _: screen
    iscope.ledger.blocks._TOKENS = block_tokens
    try:
        return measure(batch, plan)
    finally:
        iscope.ledger.measure.screen_of, iscope.ledger.blocks._TOKENS = before


@settings(max_examples=25)
@given(batch=batches(), unscored=st.sampled_from(["exclude", "neutral"]))
def test_nothing_inside_everything_inside_and_the_screen(batch, unscored):
    plan = make_plan([*DEFAULT_RECIPES, *EXTRA], unscored=unscored)
    usual = screen_of(plan)
    expected = measured(batch, plan)
    nowhere = Screen(*NOWHERE, usual.dense)
    dense = Screen(usual.low, usual.high, frozenset(range(len(plan.recipes))))
    for screen in (nowhere, dense):
        assert_close(measured(batch, plan, screen), expected)


@settings(max_examples=20)
@given(batch=batches(), block_tokens=st.sampled_from([1, 5, 64, 400]))
def test_blocks_change_no_bit(batch, block_tokens):
    plan = make_plan()
    expected, found = values_of(measured(batch, plan)), values_of(measured(batch, plan, block_tokens=block_tokens))
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)
