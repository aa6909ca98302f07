"""What the screen leaves inside adds the same as what is replayed token by token, on extreme dumps too."""

from __future__ import annotations

import numpy as np
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
from tests.extreme_batches import batches
from tests.measured import assert_close, values_of

EXTRA = (
    "trl/token_truncate:beta=0.04",
    "nemo-rl/icepop:0.5,5",
    "openrlhf/icepop:0.9,1.1",
    "openrlhf/token_tv:delta=0.09",
    "prime-rl/ref_kl",
)
# Nothing is inside the first; the second replays every recipe on every token.
NOWHERE = (float("inf"), float("-inf"))


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
