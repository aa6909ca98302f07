"""Views of several batches as one against what each is alone."""

from __future__ import annotations

import itertools

import polars as pl
import torch
from hypothesis import given
from hypothesis import strategies as st

from iscope.recipes.model import Pair
from iscope.replay.view import TokenView, joined, token_view
from iscope.rollouts import RolloutBatch

PAIR = Pair.TRAINER_INFERENCE
FLAGS = st.lists(st.lists(st.booleans(), max_size=6), min_size=1, max_size=4)


def view_of(flags: list[list[bool]], seed: int, *, per_token: bool) -> TokenView:
    """The flagged tokens of rollouts."""
    lengths = [len(row) for row in flags]
    size, generator = sum(lengths), torch.Generator().manual_seed(seed)
    trainer, inference = torch.randn((2, size), generator=generator)
    batch = RolloutBatch(
        offsets=torch.tensor([0, *lengths]).cumsum(0),
        trainer_logprobs=trainer,
        inference_logprobs=inference,
        columns=pl.DataFrame({"rollout_id": [str(row) for row in range(len(flags))]}),
        advantage=torch.randn(size if per_token else len(flags), generator=generator, dtype=torch.float64),
        advantage_per_token=per_token,
    )
    return token_view(batch, torch.tensor([flag for row in flags for flag in row], dtype=torch.bool))


@given(st.lists(FLAGS, min_size=1, max_size=4), st.booleans(), st.data())
def test_rollouts_of_several_views_are_those_of_each(
    flags: list[list[list[bool]]], per_token: bool, data: st.DataObject
) -> None:
    views = [view_of(rows, seed, per_token=per_token) for seed, rows in enumerate(flags)]
    whole = joined(views)
    assert_one_after_the_other(whole, views)
    some = [torch.tensor([data.draw(st.booleans()) for _ in range(view.segments.tokens)]) for view in views]
    parts = [view.part(flags.bool().nonzero().squeeze(1)) for view, flags in zip(views, some, strict=True)]
    part = whole.part(torch.cat(some).bool().nonzero().squeeze(1))
    assert_one_after_the_other(part, parts)
    assert part.rollouts is whole


def assert_one_after_the_other(found: TokenView, views: list[TokenView]) -> None:
    lengths = [length for view in views for length in view.segments.lengths.tolist()]
    assert found.segments.lengths.tolist() == lengths
    for values in ("trainer", "inference", "token_advantage"):
        assert getattr(found, values).tolist() == [x for view in views for x in getattr(view, values).tolist()]
    assert found.log_ratio(PAIR).tolist() == [d for view in views for d in view.log_ratio(PAIR).tolist()]
    assert found.current is None
    assert steps(found) == [step for view in views for step in steps(view)]


def steps(view: TokenView) -> list[list[int]]:
    """How far each token of a rollout stands from the one before."""
    ends = view.segments.offsets.tolist()
    return [view.position[a:b].diff().tolist() for a, b in itertools.pairwise(ends)]
